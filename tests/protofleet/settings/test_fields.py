"""Texts and documents become typed settings, and what is wrong is named by its place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from protofleet.errors import SettingError
from protofleet.settings.fields import describe, from_plain, parse_pairs, setting, to_plain


@dataclass(frozen=True)
class Hyper:
    lam: float = setting(1.0, "weight", low=0)
    weighted: bool = setting(False, "weigh")
    steps: int = setting(3, "steps")
    kind: Literal["a", "b"] = setting("a", "kind")
    sizes: tuple[int, ...] = field(default=(1,))
    most: int | None = setting(None, "at most")


def test_texts_become_typed_values():
    parsed = parse_pairs(
        Hyper, ["lam=0.5", "weighted=yes", "steps=7", "kind=b", "sizes=1,2", "most=9"]
    )
    assert parsed == Hyper(0.5, True, 7, "b", (1, 2), 9)
    assert parse_pairs(Hyper, ["most=none"]).most is None


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("lamb=1", "unknown setting 'lamb'; did you mean 'lam'"),
        ("lam", "not of the form"),
        ("lam=abc", "is not a number"),
        ("lam=nan", "is not a number"),
        ("lam=-1", r"not within \[0"),
        ("steps=1.5", "whole number"),
        ("weighted=perhaps", "not yes or no"),
        ("kind=c", "not one of a, b"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(pair, words):
    with pytest.raises(SettingError, match=words) as caught:
        parse_pairs(Hyper, [pair])
    assert caught.value.exit_code == 2


def test_settings_describe_themselves():
    first = describe(Hyper)[0]
    assert (first.name, first.kind, first.default, first.help) == ("lam", "a number", 1.0, "weight")


@dataclass(frozen=True)
class Nested:
    inner: Hyper = field(default_factory=Hyper)
    by_name: Mapping[str, float] = field(default_factory=dict)


def test_what_goes_into_a_plain_document_comes_back():
    nested = Nested(Hyper(0.5, sizes=(), most=2), {"a": 1.0})
    assert to_plain(nested)["inner"]["sizes"] == []
    assert from_plain(Nested, to_plain(nested)) == nested


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"inner": {"lamb": 1}}, "unknown setting 'inner.lamb'; did you mean 'lam'?"),
        ({"inner": 3}, "inner: a map is due, not int"),
        ({"inner": {"steps": True}}, "inner.steps: True is not a whole number"),
        ({"inner": {"sizes": 3}}, "inner.sizes: a list is due"),
        ({"inner": {"sizes": [1, "x"]}}, "inner.sizes[1]: 'x' is not a whole number"),
        ({"by_name": {"a": "much"}}, "by_name.a: 'much' is not a number"),
    ],
)
def test_a_mistake_far_inside_is_named_by_its_place(document, words):
    with pytest.raises(SettingError, match=re.escape(words)):
        from_plain(Nested, document)
