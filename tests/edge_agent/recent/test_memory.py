"""What was answered is remembered where a person's word would tell something."""

import time

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier
from edge_agent.recent import glance
from edge_agent.recent.memory import Memory, View, worth_asking
from edge_agent.recent.queue import RecentQueue
from edge_agent.updates import sight
from tests.edge_agent.recent.seeing import jpeg
from tests.knowing import knowing
from tests.networks import extractor_bundle, pictures

NOW = time.time()


@pytest.fixture
def classifier(tmp_path):
    extractor_bundle(tmp_path / "x.pfb")
    return Classifier(tmp_path / "x.pfb")


def taught(classifier):
    images = np.concatenate([pictures(seed, 40) for seed in (1, 2, 3)])
    labelled = classifier.embed(images), np.repeat([0, 1, 2], 40)
    lineage = classifier.bundle.manifest.lineages[0]
    classifier.use(knowing(lineage, "abc", [labelled]), "s")


def look(memory, classifier, seed, count=4):
    now = classifier.in_use
    answer = now.look(pictures(seed, count))
    for row in range(count):
        memory.add(now, answer, row, View(lambda row=row: jpeg(seed, row), "door"))
    return [worth_asking(answer, row) for row in range(count)]


def test_before_a_class_is_known_everything_is_worth_asking(classifier, tmp_path):
    memory = Memory(tmp_path / "x.pfb", now=lambda: NOW)
    assert all(look(memory, classifier, 1))
    rows = RecentQueue(tmp_path / "x.pfb").pictures()
    assert [(row.answer, row.probability, row.source) for row in rows] == [("", None, "door")] * 4
    assert glance.read(tmp_path / "x.pfb").at == NOW


def test_what_is_known_for_sure_is_seen_and_not_kept(classifier, tmp_path):
    taught(classifier)
    memory = Memory(tmp_path / "x.pfb", now=lambda: NOW)
    assert not any(look(memory, classifier, 1))
    assert RecentQueue(tmp_path / "x.pfb").pictures() == []
    # at most one picture a second is written down as what is seen now
    assert glance.read(tmp_path / "x.pfb").picture == jpeg(1, 0)
    assert all(look(memory, classifier, 9))
    memory.save()
    rows = RecentQueue(tmp_path / "x.pfb").pictures()
    assert len(rows) == 4
    assert all(row.unknown or row.probability < 0.9 for row in rows)
    outlook = sight.read(tmp_path / "x.pfb")
    assert (outlook.count.answers, outlook.newest.key) == (8, rows[-1].key)


def test_a_picture_that_cannot_be_kept_ends_nothing(classifier, tmp_path):
    memory = Memory(tmp_path / "x.pfb")
    now = classifier.in_use
    memory.add(now, now.look(pictures(1, 1)), 0, View(lambda: b"x" * (2 << 20)))
    assert RecentQueue(tmp_path / "x.pfb").pictures() == []
