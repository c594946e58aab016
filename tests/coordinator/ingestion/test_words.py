"""What passes between a coordinator and its ingesters survives the way."""

import pickle

import numpy as np

from coordinator.ingestion.words import HeardBatch, OpenRound, RowBatch, Totals, UploadRow
from coordinator.journal.segments import Span
from coordinator.uploads.folding import Group
from coordinator.uploads.shape_vote import signature
from protofleet.mqtt.topics import Proof
from protofleet.values.sums import Sum, digest
from tests.coordinator.ingestion.together import job_of
from tests.coordinator.made import core


def test_every_word_comes_out_as_it_went_in(tmp_path):
    row = UploadRow("a", 1, "d" * 64, Span(3, 4, 5), Proof(b"s", "d"), 7)
    words = (
        job_of(core(tmp_path), tmp_path),
        OpenRound(1, 2, "base", 16, ""),
        HeardBatch(1, 1, RowBatch(1, 1, (row,), (("topic", b"payload"),))),
    )
    for word in words:
        assert pickle.loads(pickle.dumps(word)) == word


def test_totals_keep_their_bits():
    partial = {"p": Sum.of([1, 2], np.array([[0.1], [2.0]], np.float32), 1)}
    totals = Totals(1, (Group(signature(partial), partial, [(1, "a")]),))
    (group,) = pickle.loads(pickle.dumps(totals)).groups
    assert digest(group.total) == digest(partial)
    assert group.signature == signature(partial)
