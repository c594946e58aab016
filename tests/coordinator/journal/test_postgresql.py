"""A journal on a server: one writer, whoever was thought dead writes no more, and a lost connection
is an error like a full disk.
"""

import contextlib
import threading
from urllib.parse import urlsplit

import pytest

from coordinator.errors import JournalError, Superseded
from coordinator.journal.database import WriteClaim
from coordinator.journal.journal import Journal
from coordinator.journal.postgresql import numbered
from coordinator.journal.tables import ContributionRecord


@pytest.fixture
def address(postgres):
    return postgres.database()


def served(address, folder, **how):
    return Journal(folder, lambda: 1.0, address=address, **how)


def name_of(address):
    return urlsplit(address).path[1:]


def write(made, key="k", value="v"):
    with made.commit():
        made.set_meta(key, value)


def cut_off(postgres, address):
    """End the sessions of all who are connected to this database."""
    sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname='{}'"
    postgres.ask("postgres", sql.format(name_of(address)))


def test_values_have_their_numbers():
    assert numbered("SELECT ?, ?") == b"SELECT $1, $2"
    assert numbered("a=?1 OR b=?2 OR c=?1") == b"a=$1 OR b=$2 OR c=$1"


def test_another_directory_is_refused_while_one_writes(address, tmp_path):
    first = served(address, tmp_path / "a")
    with pytest.raises(JournalError, match=r"in use by another coordinator .*process \d+"):
        served(address, tmp_path / "b")
    reader = Journal.read(tmp_path / "b", address)
    write(first)
    assert reader.meta("k") == "v"
    with pytest.raises(JournalError), reader.commit():
        reader.set_meta("k", "w")
    first.close()
    served(address, tmp_path / "b").close()
    reader.close()


def test_other_schemas_of_the_database_are_other_journals(postgres, address, tmp_path):
    postgres.ask(name_of(address), "CREATE SCHEMA pears")
    first = served(address, tmp_path / "a")
    other = served(f"{address}&options=-csearch_path%3Dpears", tmp_path / "b")
    write(first)
    assert other.meta("k") is None
    first.close()
    other.close()
    with pytest.raises(JournalError, match="search_path"):
        served(f"{address}&options=-csearch_path%3Dnowhere", tmp_path / "c")


def test_it_goes_on_after_its_connection_was_lost(postgres, address, tmp_path):
    made = served(address, tmp_path)
    write(made)
    cut_off(postgres, address)
    with pytest.raises(JournalError, match="cannot be"):
        write(made, value="lost")
    write(made, "after", "it came back")
    assert (made.meta("k"), made.meta("after")) == ("v", "it came back")
    made.close()


def test_a_block_whose_connection_is_lost_is_not_there_in_part(postgres, address, tmp_path):
    made = served(address, tmp_path)

    def fails():
        with made.commit():
            made.set_meta("first", "half")
            cut_off(postgres, address)
            with contextlib.suppress(JournalError):
                made.set_meta("second", "half")
            made.set_meta("third", "half")

    with pytest.raises(JournalError, match="cannot be written"):
        fails()
    assert [made.meta(key) for key in ("first", "second", "third")] == [None] * 3
    made.close()


def test_an_error_inside_a_block_is_no_commit(address, tmp_path):
    made = served(address, tmp_path)

    def fails():
        with made.commit():
            made.set_meta("k", "v")
            with contextlib.suppress(JournalError):
                made._db.execute("SELECT 1 FROM nowhere")

    with pytest.raises(JournalError, match="cannot be written"):
        fails()
    assert made.meta("k") is None
    made.close()


def test_who_was_thought_dead_writes_no_more(address, tmp_path):
    first = served(address, tmp_path / "a")
    second = served(address, tmp_path / "b", claim=WriteClaim(take_over=True))
    with pytest.raises(JournalError):
        write(first, value="of the first")
    with pytest.raises(Superseded, match="another coordinator"):
        write(first, value="of the first")
    write(second, value="of the second")
    second.close()
    # Also once the other has gone again: what is in memory here is of before it came.
    with pytest.raises(Superseded):
        write(first, value="of the first")
    assert Journal.read(tmp_path / "a").meta("k") == "of the second"
    first.close()


def test_who_stands_by_has_it_once_the_other_is_gone(postgres, address, tmp_path):
    first, looked = served(address, tmp_path / "a"), threading.Event()
    journals = []

    def stand_by():
        claim = WriteClaim(lambda holder: looked.set())
        journals.append(served(address, tmp_path / "b", claim=claim))

    thread = threading.Thread(target=stand_by)
    thread.start()
    assert looked.wait(60)
    first.close()
    thread.join(60)
    write(journals[0])
    journals[0].close()


def test_who_stands_by_outlives_the_server(postgres, address, tmp_path):
    first, looks = served(address, tmp_path / "a"), []
    journals = []

    def look(holder):
        looks.append(holder)
        if len(looks) == 1:
            postgres.kill()
        if len(looks) == 3:
            postgres.start()

    def stand_by():
        journals.append(served(address, tmp_path / "b", claim=WriteClaim(look)))

    thread = threading.Thread(target=stand_by)
    thread.start()
    thread.join(120)
    write(journals[0])
    assert "cannot be re" in looks[1]
    with pytest.raises(JournalError):
        write(first)
    with pytest.raises(Superseded):
        write(first)
    journals[0].close()
    first.close()


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    address = f"postgresql://nobody@/fleet?host={tmp_path}"
    with pytest.raises(JournalError, match="cannot be reached") as caught:
        served(address, tmp_path)
    assert "\n" not in str(caught.value)


def test_what_devices_say_may_have_any_character(address, tmp_path):
    made = served(address, tmp_path)
    with made.commit():
        words = "\0 and 'quotes' and \u2603 ?1"
        made.add_event("odd", words=words, agent="a")
        made.add_event("odder", words='\ud800 "agent": "a"', agent="b")
        made.set_meta("odd", "a\0b")
    assert made.events()[0]["words"] == words
    assert [[e["kind"] for e in made.history(agent=agent)] for agent in "ab"] == [
        ["odd"],
        ["odder"],
    ]
    assert made.meta("odd") == "a\ufffdb"
    made.close()


def test_text_is_in_order_of_its_bytes(postgres, tmp_path):
    name = "collated"
    postgres.ask(
        "postgres",
        f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'",
    )
    made = served(postgres.address(name), tmp_path)
    with made.commit():
        made.add_uploads([(1, agent, "", "late", b"") for agent in ("b", "a", "B", "A_", "A")])
    assert [kept.agent for kept in made.uploads()] == ["A", "A_", "B", "a", "b"]
    made.close()


def test_what_a_device_that_leaves_contributed_is_not_in_the_tables_files(
    postgres, address, tmp_path
):
    made, body = served(address, tmp_path), b"of a device that is forgotten" * 400
    with made.commit():
        made.ledger.put_contribution("e", ContributionRecord("a", "", "d"), body)
    made._db.execute("CHECKPOINT")
    files = (
        "SELECT pg_relation_filepath(oid) FROM pg_class WHERE oid = 'contributions'::regclass "
        "OR oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'contributions'::regclass)"
    )

    def on_disk():
        made._db.execute("CHECKPOINT")
        paths = [postgres.folder / "data" / path for (path,) in made._db.execute(files)]
        return any(body[:29] in path.read_bytes() for path in paths)

    assert on_disk()
    with made.commit():
        made.ledger.drop_agent("a")
    made.wipe()
    assert not on_disk()
    made.close()
