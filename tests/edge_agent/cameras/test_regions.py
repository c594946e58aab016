"""Parts of a picture, by shares."""

import numpy as np
import pytest

from edge_agent.cameras import regions
from edge_agent.cameras.regions import WHOLE, Region
from protofleet.errors import SettingError


def test_a_region_is_every_cameras_or_one_cameras_and_without_any_it_is_all_of_it():
    parts = regions.parse(["door=0.1,0.2,0.5,0.9", "yard/gate=0,0,1,1"], ["hall", "yard"])
    door = Region("door", 0.1, 0.2, 0.5, 0.9)
    assert parts == {"hall": (door,), "yard": (door, Region("gate"))}
    assert regions.parse(["yard/gate=0,0,1,0.5"], ["hall", "yard"])["hall"] == (WHOLE,)


def test_what_the_environment_took_apart_at_its_commas_is_whole_again():
    texts = ["door=0.1", "0.2", "0.5", "0.9", "gate=0", "0", "1", "1"]
    names = [region.name for region in regions.parse(texts, ["hall"])["hall"]]
    assert names == ["door", "gate"]


@pytest.mark.parametrize(
    "text",
    [
        "door",
        "door=1,2,3",
        "door=0,0,1.2,1",
        "door=0.5,0,0.5,1",
        "door=nan,0,1,1",
        "=0,0,1,1",
        "a b=0,0,1,1",
        "attic/door=0,0,1,1",
        "door=0,0,1,one",
    ],
)
def test_what_is_no_region_is_one_line(text):
    with pytest.raises(SettingError):
        regions.parse([text], ["hall"])


def test_two_of_one_name_are_refused():
    with pytest.raises(SettingError, match="two regions"):
        regions.parse(["a=0,0,1,1", "hall/a=0,0,1,1"], ["hall"])


def test_a_cut_is_that_part_and_at_least_a_pixel():
    image = np.arange(10 * 20).reshape(10, 20)
    assert Region("a", 0.5, 0.2, 1, 0.4).cut(image).tolist() == image[2:4, 10:].tolist()
    assert Region("a", 0.999, 0.999, 1, 1).cut(image).tolist() == [[199]]
    assert WHOLE.cut(image).shape == image.shape
