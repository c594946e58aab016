"""What becomes of an upload: every refusal has its reason, and repetition changes nothing."""

import io
from dataclasses import replace

import numpy as np
import pytest

from coordinator.uploads.intake import LOGGED, REMEMBERED
from coordinator.uploads.validation import Refusal
from protofleet.toolbox import summaries
from protofleet.util.logs import Log
from protofleet.values.prototypes import Prototypes, Tensors
from tests.coordinator.made import (
    AGENTS,
    CONTRACT,
    announced,
    core,
    expected,
    joined,
    parts_of,
    receipts,
    upload,
)


def test_refusals_say_why(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    wide = {"prototypes": Prototypes(np.array([0]), np.ones((1, 9)), np.array([1]))}
    high = {"prototypes": Prototypes(np.array([7]), np.ones((1, 4)), np.array([1]))}
    huge = {"prototypes": Prototypes(np.array([0]), np.full((1, 4), 5e6), np.array([1]))}
    many = {"prototypes": Prototypes(np.array([0]), np.ones((1, 4)), np.array([10**12]))}
    topic, payload = upload("a", 1, base)
    cases = {
        "dimension": upload("a", 1, base, wide),
        "class": upload("a", 1, base, high),
        "norm": upload("a", 1, base, huge),
        "count": upload("a", 1, base, many),
        "empty": upload("a", 1, base, {}),
        "bad-fusion": upload("a", 1, base, {"others": parts_of("a", 1)["prototypes"]}),
        "unknown-round": upload("a", 9, base),
        "wrong-base": upload("a", 1, "11" * 32),
        "wrong-run": upload("a", 1, base, run="r2"),
        "wrong-fleet": upload("a", 1, base, fleet="vineyard"),
        "wrong-method": upload("a", 1, base, method="fedavg"),
        "wrong-agent": (topic, upload("b", 1, base)[1]),
        "bad-bytes": (topic, payload[:-7]),
    }
    for code, message in cases.items():
        ((agent, status, reason),) = receipts(made.take([message], 1.0))
        assert (agent, status) == ("a", "refused")
        assert reason == code
    assert receipts(made.take([(topic, payload)], 1.0)) == [("a", "accepted", "")]
    other = upload("a", 1, base, parts_of("z", 1))
    assert receipts(made.take([other], 1.0)) == [("a", "conflict", "conflict")]


@pytest.mark.parametrize(("terms", "status"), [({}, "refused"), ({"freeze": True}, "accepted")])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_old_body_in_a_new_envelope_is_refused_where_devices_train(
    tmp_path, terms, status, restarted
):
    made = core(tmp_path, contract=replace(CONTRACT, **terms))
    _, _, base = joined(made)
    said = made.take([upload(a, 1, base) for a in AGENTS], 1.0)
    number, _, base = announced(said)
    if restarted:
        made.journal.close()
        made = core(tmp_path, contract=replace(CONTRACT, **terms))
        joined(made)
    old, another, own = (parts_of("a", 1), parts_of("b", 1), parts_of("a", 2))
    ((_, came, reason),) = receipts(made.take([upload("a", number, base, old)], 2.0))
    assert (came, reason) == (status, "old-body" if status == "refused" else "")
    if status == "refused":
        # Of two devices with the same samples nobody repeats the other; and the real one counts.
        assert receipts(made.take([upload("c", number, base, another)], 2.0))[0][1] == "accepted"
        assert receipts(made.take([upload("a", number, base, own)], 2.0))[0][1] == "accepted"


def test_who_was_not_asked_is_told_so(tmp_path):
    made = core(tmp_path, share=0.34)
    _, _, base = joined(made)
    (asked,) = made.run_state.asked[:1]
    other = next(a for a in AGENTS if a not in made.run_state.asked)
    assert receipts(made.take([upload(other, 1, base)], 1.0)) == [(other, "refused", "not-asked")]
    assert receipts(made.take([upload(asked, 1, base)], 1.0))[0] == (asked, "accepted", "")


def test_late_uploads_are_recorded_and_not_fused(tmp_path):
    made = core(tmp_path, quorum=0.5)
    _, _, base = joined(made)
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    assert announced(made.take([], 61.0))[:2] == (2, "open")
    assert receipts(made.take([upload("c", 1, base)], 62.0)) == [("c", "late", "")]
    assert receipts(made.take([upload("c", 1, base)], 63.0)) == [("c", "late", "")]
    assert made.journal.upload(1, "c").status == "late"
    assert made.state.sha256 == expected(made, 1, ("a", "b")).sha256


def test_a_late_upload_that_cannot_be_folded_or_is_unlike_what_is_settled_is_refused(tmp_path):
    made = core(tmp_path, quorum=0.5, staleness=1, method="fedavg", min_agents=2)

    def weights(samples=5, **sizes):
        return {
            "weights": Tensors({name: np.ones(size) for name, size in sizes.items()}),
            "data": summaries.sample_count(samples),
        }

    _, _, base = joined(made)
    for who in "ab":
        said = made.take([upload(who, 1, base, weights(w=3), method="fedavg")], 1.0)
        assert receipts(said) == [(who, "accepted", "")]
    _, _, second = announced(made.take([], 61.0))
    strange = upload("c", 1, base, {"others": parts_of("c", 1)["prototypes"]}, method="fedavg")
    assert receipts(made.take([strange], 62.0))[0][:2] == ("c", "refused")
    unlike = upload("c", 1, base, weights(w=5), method="fedavg")
    assert receipts(made.take([unlike], 62.0)) == [("c", "refused", "unlike")]
    made.take([upload(who, 2, second, weights(6, w=3), method="fedavg") for who in "ab"], 63.0)
    made.take([], 200.0)
    assert [agent for _, agent, _ in made.journal.cut(2).counted] == ["a", "b"]
    made.journal.close()
    core(tmp_path, quorum=0.5, staleness=1, method="fedavg", min_agents=2).recover(0.0)


def test_the_same_upload_twice_in_one_batch_has_one_receipt_and_later_a_duplicates(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    twice = [upload("a", 1, base), upload("a", 1, base)]
    assert receipts(made.take(twice, 1.0)) == [("a", "accepted", "")]
    assert receipts(made.take(twice[:1], 2.0)) == [("a", "duplicate", "")]
    counters = made.intake.counters
    assert (counters.uploads, counters.duplicates) == (1, 2)


def test_a_refused_upload_leaves_the_place_free_for_another(tmp_path):
    made = core(tmp_path)
    _, _, base = joined(made)
    made.take([upload("a", 1, base, {})], 1.0)
    assert made.journal.upload(1, "a") is None
    assert receipts(made.take([upload("a", 1, base)], 2.0)) == [("a", "accepted", "")]


def test_refusals_are_all_counted_but_neither_logged_nor_remembered_without_end(tmp_path):
    made = core(tmp_path)
    made.intake.log = Log(lines := io.StringIO())
    many = REMEMBERED + LOGGED
    for number in range(many):
        made.intake.refuse("a", number, "", Refusal("norm", "too long"))
    counters = made.intake.counters
    assert counters.refused == {"norm": many}
    assert [last["round"] for last in counters.last] == list(range(many - REMEMBERED, many))
    assert lines.getvalue().count("too long") == LOGGED


def test_of_a_late_upload_no_bytes_are_kept(tmp_path):
    made = core(tmp_path, rounds=2, quorum=0.5)
    _, _, base = joined(made)
    made.take([upload("a", 1, base), upload("b", 1, base)], 1.0)
    made.take([], 61.0)
    made.take([upload("c", 1, base)], 62.0)
    late = made.journal.upload(1, "c")
    assert (late.status, late.blob) == ("late", None)
    assert made.intake.counters.late == 1
