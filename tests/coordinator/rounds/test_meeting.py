"""When a group goes on, and when it is over; what it adds up is `tests.coordinator.uploads`'s."""

import random

import pytest

from coordinator.rounds.meeting import HandOut, Meeting, SayToAll, resumed
from protofleet.masking.group import Agreement, Convener, GroupFailed, Member
from protofleet.masking.layout import Layout
from protofleet.values.sums import digest
from tests.masking import STEPS
from tests.protofleet.masking.test_group import ROOMS, devices, plain

NOBODY = frozenset()


class Group:
    """A meeting and its members; `lost` says at which step a device falls silent."""

    def __init__(self, count, dropouts, lost=(), seed=0):
        self.draw, self.partials = random.Random(seed).randbytes, devices(count)
        self.layout = Layout.of(ROOMS, self.partials["d0"], count)
        terms = dropouts, self.layout.digest(), "round 1"
        self.agreement = Agreement(self.draw(16), tuple(sorted(self.partials)), *terms)
        self.meeting, self.minutes = Meeting(Convener(self.agreement), 10.0), []
        self.members, self.lost, self.now = {}, dict(lost), 0.0

    def answers(self):
        """Of everybody who is there, to what was said."""
        at, said = ALL.index(_STEP[self.meeting.step]), self.meeting.said()
        there = [n for n in self.partials if ALL.index(self.lost.get(n, "never")) > at]
        for name in there:
            answer = self._answer(name, said)
            if answer is not None:
                yield answer

    def _answer(self, name, said):
        draw, own = self.draw, self.partials[name]
        match said, self.members.get(name):
            case SayToAll(Agreement() as word), None:
                self.members[name] = Member.joining(name, word, self.layout.digest(), draw)
                return self.members[name].keys()
            case HandOut(parcels), member if name in parcels:
                self.members[name], answer = member.mask(parcels[name], self.layout, own)
                return answer
            case SayToAll(word), Member() as member:
                move = member.share if self.meeting.step == "shares" else member.reveal
                words = (word, draw) if self.meeting.step == "shares" else (word,)
                self.members[name], answer = move(*words)
                return answer
        return None

    def hear(self, letter):
        self.meeting = self.meeting.heard(letter)
        self.minutes.append(letter)

    def goes_on(self):
        self.meeting = self.meeting.gone_on(self.now + 10.0)
        self.minutes.append(None)

    def runs(self, reborn=False):
        """To its end; reborn: from the minutes before every step."""
        while self.meeting.step != "over":
            for letter in list(self.answers()):
                self.hear(letter)
            if reborn:
                again = resumed(self.agreement, self.minutes, self.meeting.deadline)
                assert again == self.meeting
                self.meeting = again
            if not self.meeting.is_due(NOBODY, self.now):
                self.now = self.meeting.deadline
            assert self.meeting.is_due(NOBODY, self.now)
            self.goes_on()
        return self.meeting


_STEP = dict(zip(("keys", "shares", "masks", "reveal"), STEPS, strict=True))
ALL = (*STEPS, "never")


@pytest.mark.parametrize("reborn", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_the_sweep(step, count, reborn):
    lost = {f"d{n}": step for n in range(count)}
    group = Group(6, 2, lost)
    meeting = group.runs(reborn)
    gone = () if step == "reveal" else lost
    assert not meeting.failed
    assert meeting.survivors == tuple(n for n in group.partials if n not in gone)
    assert digest(meeting.convener.total(group.layout)) == plain(group.partials, gone)


@pytest.mark.parametrize("step", STEPS)
def test_below_the_threshold_it_is_over_without_a_total(step):
    meeting = Group(6, 2, {f"d{n}": step for n in range(3)}).runs()
    assert meeting.failed.startswith("3 of 6 devices")
    if step != "reveal":
        assert not meeting.survivors


def test_nobody_is_waited_for_who_is_gone_but_only_if_the_others_are_enough():
    group = Group(6, 2, {"d0": "keys", "d1": "keys", "d2": "keys"})
    for letter in list(group.answers()):
        group.hear(letter)
    gone = frozenset({"d0", "d1", "d2"})
    assert not group.meeting.is_due(gone, 9.0)  # three are too few: one of them may come back
    assert group.meeting.is_due(gone, 10.0)
    group = Group(6, 2, {"d0": "keys"})
    for letter in list(group.answers()):
        group.hear(letter)
    assert group.meeting.missing == ["d0"]
    assert not group.meeting.is_due(NOBODY, 9.0)
    assert group.meeting.is_due(frozenset({"d0"}), 0.0)


def test_an_answer_twice_or_too_late_is_not_taken():
    group = Group(6, 2)
    first, *rest = list(group.answers())
    group.hear(first)
    with pytest.raises(GroupFailed, match="answered already"):
        group.hear(first)
    for letter in rest[:4]:
        group.hear(letter)
    group.now = 10.0
    group.goes_on()
    with pytest.raises(GroupFailed, match="not due"):
        group.hear(rest[4])
    assert not Group(6, 2).runs().is_due(NOBODY, 1e9)
