"""What the page shows, from the files beside a bundle."""

import json

import pytest

from edge_agent.contributing import statement
from edge_agent.page.desk import Desk
from edge_agent.page.owner import embedded
from edge_agent.recent.queue import RecentBounds, RecentQueue
from tests.edge_agent.page.owned import bundle_of, see, teach


@pytest.fixture
def desk(tmp_path):
    bundle_of(tmp_path)
    return desk_of(tmp_path)


def desk_of(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    return Desk(bundle, tmp_path / "photos", RecentBounds(), lambda f: embedded(bundle, f))


def test_before_there_is_a_bundle_it_says_what_is_missing(tmp_path):
    desk = desk_of(tmp_path)
    assert "on its way" in desk.queue_document()["why"]
    assert desk.now()["at"] is None
    assert desk.heaps() == {"heaps": []}
    assert desk.classes()["classes"] == []


def test_while_nothing_is_known_pictures_come_in_heaps_and_each_heap_is_asked_about(desk, tmp_path):
    see(tmp_path / "fleet.pfb", (1, 20), (2, 16), (3, 14))
    document = desk.queue_document()
    assert (document["waiting"], document["classes"]) == (50, [])
    assert len({row["source"] for row in document["pictures"][:3]}) == 3
    heaps = desk.heaps()["heaps"]
    source = {row.key: row.source for row in desk.queue.pictures()}
    sources = [{source[key] for key in heap["keys"]} for heap in heaps]
    assert all(len(some) == 1 for some in sources)
    assert len(set.union(*sources)) == 3
    assert heaps[0]["things"] >= 5
    assert desk.now()["best"] == []


def test_what_the_fleet_learned_is_what_the_page_says_at_once(desk, tmp_path):
    see(tmp_path / "fleet.pfb", (1, 4), (9, 14))
    before = desk.queue_document()
    assert desk.queue_document() is before  # nothing changed: nothing is made again
    teach(tmp_path / "fleet.pfb")
    after = desk.queue_document()
    assert after["classes"] == ["one", "three", "two"]
    by_source = {row["source"]: row for row in reversed(after["pictures"])}
    assert by_source["door 1"]["best"][0]["name"] == "one"
    assert by_source["door 9"]["unknown"]
    assert after["pictures"][0]["source"] == "door 9"
    assert desk.now()["best"][0]["name"] in ("one", "two", "three")
    assert desk.heaps()["heaps"][0]["things"] >= 5


def test_what_another_extractor_saw_is_looked_at_anew(desk, tmp_path):
    see(tmp_path / "fleet.pfb", (1, 3))
    queue = RecentQueue(tmp_path / "fleet.pfb")
    with queue._change() as db:
        db.execute("UPDATE pictures SET lineage = 'extractor:older'")
    assert desk.queue_document()["waiting"] == 3


def test_enough_is_said_class_by_class(desk, tmp_path):
    bundle = tmp_path / "fleet.pfb"
    see(bundle, (1, 12), (2, 2))
    keys = [row.key for row in desk.queue.pictures()]
    desk.labelling.label(keys[:12], "one")
    desk.labelling.label(keys[12:], "two")
    rows = {row["name"]: row for row in desk.classes()["classes"]}
    assert (rows["one"]["own"], rows["one"]["verdict"], rows["two"]["few"]) == (
        12,
        "uncounted",
        True,
    )
    teach(bundle)
    lineage = desk._eye.knowing().lineage
    folder = statement.folder_of(bundle, lineage)
    folder.mkdir(parents=True)
    one = {"samples": 40, "tested": 12, "right": 12, "accuracy": 0.98, "gain": 0.001}
    two = {"samples": 40, "tested": 2, "right": 1, "accuracy": 0.8, "gain": 0.04}
    document = {"at": 5.0, "total": "t", "classes": {"one": one, "two": two}}
    (folder / statement.FORECAST).write_text(json.dumps(document))
    rows = {row["name"]: row for row in desk.classes()["classes"]}
    assert [rows[name]["verdict"] for name in ("one", "two", "three")] == [
        "enough",
        "more",
        "uncounted",
    ]
    assert (rows["one"]["fleet"], rows["three"]["own"]) == (40, 0)
    assert "estimates" in desk.classes()["words"]


def test_a_name_in_other_letters_is_the_fleets(desk, tmp_path):
    teach(tmp_path / "fleet.pfb")
    assert desk.known_as("ONE") == "one"
    assert desk.known_as("four") == "four"
