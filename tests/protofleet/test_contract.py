"""What a fleet agrees on contradicts itself nowhere, and says so at once where it would."""

from dataclasses import replace

import pytest

from protofleet.contract import Contract, Input
from protofleet.errors import SettingError
from protofleet.settings.fields import from_plain, to_plain

VECTOR = Input("vector", (2,))
IMAGE = Input("image", (8, 8, 1), (0.5,), (0.2,))
CONTRACT = Contract("f", "r", 3, ("a", "b"), IMAGE, 64, (84,))


def test_it_survives_the_way_through_a_plain_document():
    document = to_plain(CONTRACT)
    assert from_plain(Contract, document) == CONTRACT
    with pytest.raises(SettingError, match=r"input\.kind"):
        from_plain(Contract, {**document, "input": {**document["input"], "kind": "smell"}})
    with pytest.raises(SettingError, match="missing"):
        from_plain(Contract, {"fleet": "f"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ("a", "")}, "names must differ"),
        ({"classes": ("a", "a")}, "names must differ"),
        ({"embedding": 0}, "0 is not a size"),
        ({"neck": (84, 63)}, r"neck: \[84, 63\] does not end in an embedding of 64"),
        ({"neck": (0, 64)}, "neck"),
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        replace(CONTRACT, **changes)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("image", (8, 8)), ("vector", (2, 2)), ("series", (3,)), ("vector", (0,)), ("image", ())],
)
def test_a_shape_that_is_none_of_its_kind_is_refused(kind, shape):
    with pytest.raises(SettingError, match=f"is not the shape of one {kind}"):
        Input(kind, shape)


@pytest.mark.parametrize(("mean", "std"), [((0.5,), ()), ((0.5,), (0.0,)), ((), (1.0,))])
def test_every_mean_has_its_positive_deviation(mean, std):
    with pytest.raises(SettingError, match="one positive number per mean"):
        Input("image", (8, 8, 1), mean, std)


def test_class_ids_are_positions():
    assert CONTRACT.n_classes == 2
    assert Contract("f", "r", 0, ("b", "a"), VECTOR, 1).classes.index("a") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("unit_embedding", True),
        ("head_relu", True),
        ("unit_logits", True),
        ("neck", (30, 64)),
        ("resize", "pool"),
    ],
)
def test_an_option_that_came_later_is_announced_only_where_it_is_used(option, value):
    document = CONTRACT.announced()  # what devices from before the option read
    assert option not in document
    assert document.keys() < to_plain(CONTRACT).keys()
    assert from_plain(Contract, document) == CONTRACT
    used = replace(CONTRACT, **{option: value})
    assert used.announced() == {**document, option: to_plain(value)}
    assert from_plain(Contract, used.announced()) == used


def test_an_option_of_training_that_came_later_is_too():
    document = CONTRACT.announced()
    assert "last_batch" not in document["training"]
    assert document["training"].keys() < to_plain(CONTRACT)["training"].keys()
    used = replace(CONTRACT, training=replace(CONTRACT.training, last_batch="drop"))
    assert used.announced()["training"] == {**document["training"], "last_batch": "drop"}
    assert from_plain(Contract, used.announced()) == used
