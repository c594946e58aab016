"""A ledger's tables: the newest a device and source, counts of one total, hashes of what came."""

from coordinator.journal.tables import ContributionRecord, CountsRecord, VersionRecord


def test_a_contribution_takes_the_place_of_the_one_before_and_goes_with_its_device(
    journal, tmp_path
):
    made = journal(tmp_path)
    body = b"of a device that is forgotten" * 400
    with made.commit():
        for lineage in ("e", "f"):
            for agent, source in (("b", ""), ("a", ""), ("a", "owl")):
                record = ContributionRecord(agent, source, "first")
                made.ledger.put_contribution(lineage, record, body if agent == "a" else b"b")
        made.ledger.put_contribution("e", ContributionRecord("b", "", "second"), b"newer")
        made.ledger.drop_contribution("f", "a", "owl")
    assert made.ledger.contribution("e", "b", "") == b"newer"
    assert [record.digest for record in made.ledger.contributions("e")] == [
        *["first"] * 2,
        "second",
    ]
    assert [(r.agent, r.source) for r in made.ledger.contributions("f")] == [("a", ""), ("b", "")]
    with made.commit():
        made.ledger.drop_agent("a")
    made.wipe()
    assert [made.ledger.contribution(lineage, "a", "") for lineage in "ef"] == [None, None]
    made.close()
    # Not on the disk, either.
    assert not any(body[:29] in path.read_bytes() for path in tmp_path.iterdir())
    again = journal(tmp_path)
    assert (again.ledger.contribution("e", "b", ""), again.ledger.changes) == (b"newer", 9)
    with again.commit():
        again.ledger.drop_lineages({"f"})
    assert again.ledger.contributions("e") == []
    assert len(again.ledger.contributions("f")) == 1


def test_counts_are_of_one_total(journal, tmp_path):
    tables = (made := journal(tmp_path)).ledger
    with made.commit():
        for agent, total in (("a", "t"), ("b", "t"), ("a", "t"), ("c", "u"), ("a", "u")):
            tables.drop_counts_but("e", total)
            tables.put_counts("e", CountsRecord(agent, total, "d", b"of " + agent.encode()))
    due = [CountsRecord(agent, "u", "d", b"of " + agent.encode()) for agent in "ac"]
    assert tables.counts("e") == due
    with made.commit():
        tables.drop_counts()
    assert tables.counts("e") == []


def test_the_newest_version_and_a_bounded_number_before_it_are_remembered(
    journal, tmp_path, monkeypatch
):
    monkeypatch.setattr("coordinator.journal.tables.VERSIONS", 3)
    tables = (made := journal(tmp_path)).ledger
    assert tables.newest() is None
    for number in range(1, 6):
        with made.commit():
            tables.put_version(VersionRecord(number, "e", "t", 5, number, "s"))
    with made.commit():
        tables.put_version(VersionRecord(5, "e", "t", 5, 9, "s"))
    assert [version.version for version in tables.versions()] == [3, 4, 5]
    assert tables.newest() == VersionRecord(5, "e", "t", 5, 9, "s")
