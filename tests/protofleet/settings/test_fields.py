from dataclasses import dataclass, field
from typing import Literal

import pytest

from protofleet.contract import Contract, Input
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
    got = parse_pairs(
        Hyper, ["lam=0.5", "weighted=yes", "steps=7", "kind=b", "sizes=1,2", "most=9"]
    )
    assert got == Hyper(0.5, True, 7, "b", (1, 2), 9)
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


def test_a_contract_survives_the_way_through_a_plain_document():
    contract = Contract(
        "f", "r", 3, ("a", "b"), Input("image", (8, 8, 1), (0.5,), (0.2,)), 64, (84,)
    )
    document = to_plain(contract)
    assert from_plain(Contract, document) == contract
    with pytest.raises(SettingError, match=r"input\.kind"):
        from_plain(Contract, {**document, "input": {**document["input"], "kind": "smell"}})
    with pytest.raises(SettingError, match="missing"):
        from_plain(Contract, {"fleet": "f"})


def test_a_contract_that_contradicts_itself_is_refused():
    with pytest.raises(SettingError, match="names must be given and differ"):
        Contract("f", "r", 3, ("a", "a"), Input("vector", (2,)), 64)
    with pytest.raises(SettingError, match="shape of one image"):
        Input("image", (8, 8))
