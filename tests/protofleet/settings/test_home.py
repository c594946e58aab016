"""Settings of Home Assistant: a prefix is a topic, a page is a URL."""

import pytest

from protofleet.errors import SettingError
from protofleet.settings.home import DeviceHome, HomeSection


def test_by_default_nobody_is_told_anything():
    section = DeviceHome()
    assert not section.discovery
    assert not section.pictures


@pytest.mark.parametrize("prefix", ["", "a/", "/a", "a+b", "#", "a b", "ä"])
def test_a_prefix_that_is_no_topic_is_refused(prefix):
    with pytest.raises(SettingError, match="is no topic"):
        HomeSection(prefix=prefix)


def test_a_page_is_a_url():
    assert HomeSection(prefix="my/ha_2", page="https://x/").page
    with pytest.raises(SettingError, match="URL"):
        HomeSection(page="javascript:alert(1)")
