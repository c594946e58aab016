"""A tap makes a sample of a picture and takes it out again, whoever dies in between."""

import pytest

from edge_agent.recent import labelling
from edge_agent.recent.labelling import Labelling, album, class_name, samples_by_class
from edge_agent.recent.queue import RecentQueue
from protofleet.errors import UsageError
from tests.edge_agent.recent.seeing import sighting


@pytest.fixture
def desk(tmp_path):
    for n in range(4):
        RecentQueue(tmp_path / "x.pfb").add(sighting(n, at=1e12))
    (tmp_path / "photos").mkdir()
    return Labelling(tmp_path / "x.pfb", tmp_path / "photos", lambda: 1e12)


def keys(desk, *states):
    return [row.key for row in desk.queue.pictures(*states or ("waiting",))]


def test_a_label_is_a_photo_and_undone_it_is_none(desk):
    one, two, *_ = keys(desk)
    assert desk.label([one, two, one, "nobody"], " blue  mug ") == 2
    photo = desk.source / "blue mug" / f"{one}.jpg"
    assert photo.read_bytes() == desk.queue.picture(one).read_bytes()
    assert samples_by_class(desk.source) == {"blue mug": 2}
    assert desk.label([one], "cup") == 0  # it is named already
    assert one not in keys(desk)
    action = desk.undo()
    assert (action.label, action.pictures) == ("blue mug", 2)
    assert samples_by_class(desk.source) == {}
    assert list(desk.source.iterdir()) == []
    assert len(keys(desk)) == 4
    assert desk.undo() is None


def test_actions_are_taken_back_one_by_one_or_by_number(desk):
    one, two, three, four = keys(desk)
    desk.label([one], "mug")
    desk.throw([two])
    desk.label([three, four], "cup")
    number = desk.queue.last_action().number
    assert keys(desk) == []
    desk.undo(number - 1)
    assert keys(desk) == [two]
    desk.undo()
    assert keys(desk) == [two, three, four]
    desk.undo()
    assert len(keys(desk)) == 4


@pytest.mark.parametrize("dies_in", ["naming", "clearing"])
def test_what_was_meant_when_a_process_died_is_done_by_the_next(desk, dies_in, monkeypatch):
    one, *_ = keys(desk)
    if dies_in == "clearing":
        desk.label([one], "mug")

    def dies(*_, **__):
        raise KeyboardInterrupt

    act = (lambda: desk.label([one], "mug")) if dies_in == "naming" else desk.undo
    with monkeypatch.context() as patched:
        patched.setattr(labelling, "write_whole", dies)
        patched.setattr(labelling.Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            act()
    assert keys(desk, dies_in) == [one]
    desk.mend()
    assert keys(desk, "naming", "clearing") == []
    assert samples_by_class(desk.source) == ({"mug": 1} if dies_in == "naming" else {})
    assert (one in keys(desk)) == (dies_in == "clearing")


def test_photos_go_where_the_folder_has_its_classes(tmp_path):
    plain, split, domains = (tmp_path / name for name in ("plain", "split", "domains"))
    for folder in (plain / "mug", split / "train" / "mug", split / "test" / "mug"):
        folder.mkdir(parents=True)
    (domains / "yard" / "mug").mkdir(parents=True)
    assert album(plain) == plain
    assert album(split) == split / "train"
    assert album(domains) == domains / "tapped"
    assert album(tmp_path / "none") == tmp_path / "none"


def test_a_class_that_is_there_in_other_letters_is_that_class(desk):
    one, two, *_ = keys(desk)
    desk.label([one], "Mug")
    desk.label([two], "mug")
    assert samples_by_class(desk.source) == {"Mug": 2}


@pytest.mark.parametrize(
    "name", ["", "  ", "a/b", "../up", ".hidden", "_x", "a\x00b", "x" * 65, "a:b"]
)
def test_names_that_are_no_folders_are_refused(desk, name):
    with pytest.raises(UsageError):
        desk.label(keys(desk), name)
    assert class_name(" Tasse\n mit Henkel ") == "Tasse mit Henkel"
    assert list(desk.source.iterdir()) == []
