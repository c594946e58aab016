"""What a device may say of its samples, and when again: a pure rule about hashes of samples."""

# Theory of operation
#
# What a device says of a class is a mean, and means give their samples away in two ways: one of
# very few samples is nearly a sample, and so is the difference of two means of which one has a
# sample more. So
#
#   a class                                   is said with
#   never said, fewer than `minimum`          nothing: it is left out, and named to the owner
#   never said, as many or more               the samples that there are
#   said, fewer than `changed` differ         the samples it was said with, whatever there is now
#   said, as many or more differ              the samples that there are; none if below the minimum
#   said, fewer differ, and its owner took    nothing, until as many differ: what was taken back is
#     one of them back                        out at once, and no difference shows it
#
# A sample differs that came, went, or was given another label (it went from one class and came to
# the other). The third line is why features outlive their photos (`features`): a class that stays
# as it was must be said again with exactly what it was said with when another one changes, for one
# message speaks of all.
#
# Both numbers are the fleet's, in its announcement, and a device on its own has the defaults. They
# are about one extractor: a new one is told everything anew, since nobody can take the difference
# of means that lie in two spaces.

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Keys = tuple[str, ...]  # of samples, in order


@dataclass(frozen=True)
class SpeechRules:
    """How few samples of a class are too few, to be spoken of and to be spoken of again."""

    minimum: int = 5
    changed: int = 5


def to_say(
    now: Mapping[str, Keys],
    before: Mapping[str, Keys],
    rules: SpeechRules,
    back: frozenset[str] = frozenset(),
) -> dict[str, Keys]:
    """With which samples each class is said: those there are `now`, or those of `before`. Their
    owner took `back` some.
    """
    spoken = {}
    for name in sorted({*now, *before}):
        fresh, earlier = now.get(name, ()), before.get(name, ())
        keys = fresh
        if earlier and _difference(fresh, earlier) < rules.changed:
            keys = () if back & (set(earlier) - set(fresh)) else earlier
        if len(keys) >= rules.minimum:
            spoken[name] = keys
    return spoken


def _difference(one: Keys, other: Keys) -> int:
    """How many are in one of the two alone; a sample that is there twice counts twice."""
    here, there = Counter(one), Counter(other)
    return (here - there).total() + (there - here).total()
