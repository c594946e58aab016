"""What was signed is kept, and what one device signed pushes nobody else's out."""

from coordinator.journal import signatures
from coordinator.journal.journal import Journal
from coordinator.journal.signatures import ProofRecord


def test_what_was_taken_and_who_said_it_outlives_the_process(journal, tmp_path, monkeypatch):
    monkeypatch.setattr(signatures, "PROOFS", 2)
    made = journal(tmp_path, lambda: 5.0)
    with made.commit():
        made.signatures.put_heard({("a", "upload"): 3, ("b", "state"): 1})
        made.signatures.put_proofs([ProofRecord("a", 1, "00", b"one")])
    with made.commit():
        made.signatures.put_heard({("a", "upload"): 7})
        made.signatures.put_proofs(
            [ProofRecord("b", 1, "11", b"two"), ProofRecord("a", 2, "22", b"three")]
        )
    made.close()
    again = Journal.read(tmp_path)
    assert again.signatures.heard() == {("a", "upload"): 7, ("b", "state"): 1}
    assert [p.proof for p in again.signatures.proofs()] == [b"two", b"three"]
    assert again.signatures.proofs("a") == [ProofRecord("a", 2, "22", b"three", 5.0)]
    again.close()


def test_however_often_one_device_speaks_what_others_signed_is_still_there(
    journal, tmp_path, monkeypatch
):
    monkeypatch.setattr(signatures, "OFFERS", 3)
    made = journal(tmp_path, lambda: 5.0)
    with made.commit():
        made.signatures.put_proofs([ProofRecord("a", 0, "00", b"one")])
        made.signatures.put_proofs([ProofRecord("b", 7, "00", b"two")])
    for number in range(9):
        with made.commit():
            made.signatures.put_proofs([ProofRecord("b", 0, "00", bytes([number]))])
    assert [p.proof for p in made.signatures.proofs("a")] == [b"one"]
    assert [p.proof for p in made.signatures.proofs("b")] == [b"two", b"\6", b"\7", b"\x08"]
    made.close()
