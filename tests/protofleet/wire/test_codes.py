"""The codes are texts of the protocol: what a decoder or a database gives back is one of them."""

import json
import pickle
import sqlite3

import pytest

from protofleet import errors, wire
from protofleet.wire.codes import FINAL, CutReason, Reason, RoundPhase, Scope, UploadStatus


@pytest.mark.parametrize("code", [*UploadStatus, *Reason, *Scope, *RoundPhase, *CutReason])
def test_a_code_comes_back_as_it_went_from_wire_database_json_and_pipe(code):
    envelope = wire.Envelope(t="receipt", fleet="f")
    assert wire.decode(wire.encode(envelope, {"status": code})).body == {"status": str(code)}
    assert sqlite3.connect(":memory:").execute("SELECT ?", (code,)).fetchone() == (str(code),)
    assert json.loads(json.dumps(code)) == code
    assert pickle.loads(pickle.dumps(code)) is code
    assert f"{code}" == code.value


def test_what_is_not_final_is_asked_for_or_decided_later():
    assert set(UploadStatus) - FINAL == {
        UploadStatus.HELD,
        UploadStatus.MISSING,
        UploadStatus.NOTED,
        UploadStatus.WAITING,
    }


def test_errors_that_go_into_receipts_have_their_code_here():
    for kind in (errors.WireError, errors.ValueRefused, errors.FusionError):
        assert kind.code in set(Reason)
