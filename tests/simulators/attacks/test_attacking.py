"""Documents of attacks: what is refused, what is put where."""

import json

import pytest

from protofleet import registry
from protofleet.errors import DataError, UnknownMethod, UsageError
from simulators.attacks.attacking import (
    AttackOptions,
    check,
    keep,
    merged,
    named,
    on_uploads,
    protocol,
)


def test_methods_are_those_of_the_registry():
    assert named("") == registry.names()
    assert named("fedmps,gfpl") == ["fedmps", "gfpl"]
    with pytest.raises(UnknownMethod, match="fedproto"):
        named("fedprot")


def test_the_papers_protocol_is_the_papers():
    run = protocol("cifar10").run
    assert (run.partition, run.agents, run.partition_seed) == ("few-shot", 20, 1234)
    assert protocol("mnist").run.dataset == "mnist"


def test_what_cannot_be_run_is_refused():
    with pytest.raises(UsageError):
        check(["hijack"], AttackOptions(rounds=0), 1)
    with pytest.raises(UsageError):
        check([], AttackOptions(), 1)


def test_too_few_images_are_refused():
    with pytest.raises(DataError, match="too few images"):
        on_uploads("digits", ["membership"], 0, AttackOptions(images=50), lambda words: None)


def test_figures_are_put_among_those_that_are_there(tmp_path):
    path = tmp_path / "deep" / "attacks.json"
    keep({"hijack": {"digits": {"0": {"fedproto": {"round": 1}}}}}, path)
    keep({"hijack": {"digits": {"0": {"gfpl": {"round": 2}}}}}, path)
    keep({"uploads": {"digits": {"0": {"decoder": {"rows": [1], "settings": {}}}}}}, path)
    document = json.loads(path.read_text())
    assert document["hijack"]["digits"]["0"] == {"fedproto": {"round": 1}, "gfpl": {"round": 2}}
    # Rows stand with the settings that they were made with.
    old, new = {"rows": [1], "settings": {"a": 1}}, {"rows": [2], "settings": {}}
    assert merged({"decoder": old}, {"decoder": new}) == {"decoder": new}
