"""What bundles are turned into: the same for a seed, and each layer is reached."""

import random

import pytest

from protofleet.exchange import archive
from simulators.faults import bundle_mutations as mutations
from simulators.faults.bundle_mutations import manifest, mutated, packed, sound

FILES = sound()


def test_the_sound_one_stands_and_its_name_is_its_manifest_s():
    data = packed(FILES, manifest(FILES))
    assert mutations.outcome(data) == "stands"
    assert mutations.name_of(data) == archive.unpack(data, "it").digest


def test_a_seed_says_it_all():
    assert mutated(FILES, random.Random(5)) == mutated(FILES, random.Random(5))
    assert len({mutated(FILES, random.Random(n)) for n in range(40)}) > 35


@pytest.mark.parametrize("step", ["_fields", "_bytes", "_arrays"])
def test_a_change_is_one(step):
    name = "selftest.npz" if step == "_arrays" else "model.onnx"
    change, data = getattr(mutations, step), FILES[name]
    changed = [change(data, random.Random(n)) for n in range(30)]
    assert sum(one != data for one in changed) > 20


def test_some_are_refused_behind_their_hashes():
    words = set()
    for n in range(60):
        try:
            archive.unpack(mutated(FILES, random.Random(n)), "it")
            words.add("whole")
        except archive.BundleError as error:
            words.add(str(error)[:12])
    assert "whole" in words
    assert len(words) == 3
