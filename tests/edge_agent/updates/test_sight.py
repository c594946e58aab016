"""The newest answer is left for others: now and then, counted, and readable whatever is there."""

import json

from edge_agent.updates import sight
from edge_agent.updates.sight import EVERY, Sight, Sights


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def test_answers_in_between_are_counted_and_the_newest_is_shown(tmp_path):
    clock, bundle = Clock(), tmp_path / "fleet.pfb"
    assert sight.read(bundle) is None
    sights = Sights(bundle, clock)
    sights.add(Sight("mug", 0.9, at=1.0))
    for label, unknown in (("desk", False), ("bike", True), ("pen", False)):
        sights.add(Sight(label, None, unknown=unknown, at=2.0))
    assert sight.read(bundle).newest.label == "mug"
    clock.now += EVERY
    sights.frames(50, dropped=7)
    outlook = sight.read(bundle)
    assert outlook.newest == Sight("pen", at=2.0)
    assert (outlook.count.answers, outlook.count.unknown) == (4, 1)
    assert (outlook.count.frames, outlook.count.dropped) == (50, 7)
    sights.add(Sight("mug"))
    sights.save()
    assert sight.read(bundle).count.answers == 5


def test_what_is_no_such_file_is_none(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    Sights(bundle).add(Sight("mug", 0.9))
    file = sight.sight_file(bundle)
    good = json.loads(file.read_text())
    for text in ("", "[]", "{", "[" * 9000, json.dumps({**good, "more": 1}), '{"newest": 3}'):
        file.write_text(text)
        assert sight.read(bundle) is None
    file.unlink()
    file.mkdir()
    assert sight.read(bundle) is None


def test_what_others_see_is_bounded():
    shown = sight.shown(Sight("x" * 9999, source="y" * 9999))
    assert len(json.dumps(shown)) < 1000
