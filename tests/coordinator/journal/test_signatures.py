from coordinator.journal import signatures
from coordinator.journal.journal import Journal
from coordinator.journal.signatures import ProofRecord


def test_what_was_taken_and_who_said_it_outlives_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(signatures, "PROOFS", 2)
    journal = Journal(tmp_path, lambda: 5.0)
    with journal.commit():
        journal.signatures.put_heard({("a", "upload"): 3, ("b", "state"): 1})
        journal.signatures.put_proofs([ProofRecord("a", 1, "00", b"one")])
    with journal.commit():
        journal.signatures.put_heard({("a", "upload"): 7})
        journal.signatures.put_proofs(
            [ProofRecord("b", 1, "11", b"two"), ProofRecord("a", 2, "22", b"three")]
        )
    journal.close()
    again = Journal.read(tmp_path)
    assert again.signatures.heard() == {("a", "upload"): 7, ("b", "state"): 1}
    assert [p.proof for p in again.signatures.proofs()] == [b"two", b"three"]
    assert again.signatures.proofs("a") == [ProofRecord("a", 2, "22", b"three", 5.0)]
    again.close()
