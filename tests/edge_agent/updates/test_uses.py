"""How often somebody classified with a bundle, as it is left for the daemon."""

from edge_agent.updates.uses import AnswerCount, UseCount, read_uses, uses_file


def test_what_ends_while_it_is_loaded_or_first_asked_adds_up(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    assert read_uses(bundle) == UseCount()
    for starts in (1, 2, 3):
        AnswerCount(bundle).begin("b")
        assert read_uses(bundle) == UseCount("b", starts, starts, 0)
    count = AnswerCount(bundle)
    count.begin("b")
    count.ready()  # nobody asks it anything: that is no failure, and no answer
    assert read_uses(bundle) == UseCount("b", 4, 3, 0)
    count.asking("b")
    assert read_uses(bundle).silent == 4
    count.answered("b")
    count.asking("b")
    count.answered("b", 4)  # a moment later: counted, and written with the next
    assert read_uses(bundle) == UseCount("b", 4, 0, 1)
    later = AnswerCount(bundle, iter([0.0, 9.0, 12.0, 99.0]).__next__)
    later.answered("c")
    assert read_uses(bundle) == UseCount("c", 1, 0, 1)
    later.answered("c", 4)
    assert read_uses(bundle).answers == 5


def test_cameras_that_start_at_night_are_not_sick(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    for _ in range(5):
        count = AnswerCount(bundle)
        count.begin("b")
        count.ready()
    assert read_uses(bundle) == UseCount("b", 5, 0, 0)


def test_a_damaged_file_is_none(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    for text in ("", "[]", '{"starts": "many"}', '{"more": 1}', "null"):
        uses_file(bundle).write_text(text)
        assert read_uses(bundle) == UseCount()
