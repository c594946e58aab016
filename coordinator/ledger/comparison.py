"""Which of a device's classes look like another one everywhere else: whose turn it is to be looked
at, and what came of it. Looked at while nothing else goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.ledger.ledger import Ledger
from protofleet.exchange.contributed import Contributed
from protofleet.statistics.closed_form import moments, whitened
from protofleet.statistics.suspects import suspects
from protofleet.values.prototypes import Prototypes

COMPARED = 64  # devices in one stand-still, those first that changed last


@dataclass(frozen=True)
class SuspectClass:
    """What one device calls by one name and everybody else by another."""

    agent: str
    label: str
    looks_like: str

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.agent}: its {self.label!r} looks like everybody else's {self.looks_like!r}"


@dataclass(frozen=True)
class Comparisons:
    """Suspects by device, and who is to be looked at (None: nobody thought about it since the last
    change).
    """

    suspects: Mapping[str, tuple[SuspectClass, ...]] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    queue: tuple[str, ...] | None = ()

    def upset(self, agents: Iterable[str]) -> Comparisons:
        """These devices say something else than before, and so does what they are compared with."""
        first = tuple(agents)
        others = tuple(agent for agent in self.changed if agent not in first)
        return replace(self, changed=(*first, *others)[:COMPARED], queue=None)

    def next(self, agents: Sequence[str]) -> tuple[str, Comparisons]:
        """Whose turn it is among all who contribute; nobody's, once everybody had theirs."""
        queue = self.queue
        if queue is None:
            others = (agent for agent in agents if agent not in self.changed)
            queue = (*(agent for agent in self.changed if agent in agents), *others)[:COMPARED]
        return (queue[0] if queue else ""), replace(self, changed=(), queue=queue[1:])

    def with_suspects(self, agent: str, pairs: tuple[SuspectClass, ...]) -> Comparisons:
        """What came of one."""
        return replace(self, suspects={**self.without(agent).suspects, agent: pairs})

    def without(self, agent: str) -> Comparisons:
        """Nothing is known of this device."""
        others = {name: pairs for name, pairs in self.suspects.items() if name != agent}
        return replace(self, suspects=others)

    @property
    def all(self) -> list[SuspectClass]:
        """By device and class."""
        return [pair for agent in sorted(self.suspects) for pair in self.suspects[agent]]


def suspects_of(
    ledger: Ledger, agent: str, own: Sequence[Contributed], shrinkage: float
) -> tuple[SuspectClass, ...]:
    """A device against the total without it; `own` are all its contributions."""
    others = ledger
    for contributed in own:
        others = others.without(agent, contributed)
    rest = moments(others.heard())
    labelled = next((one for one in own if not one.claim.source), None)
    # A class that was enrolled stands alone: it cannot be told from its camera's offset.
    if rest is None or labelled is None or len(rest.classes) < 2:
        return ()
    means = labelled.contribution.means
    ids = np.array([ledger.ids[name] for name in labelled.claim.classes], np.int64)
    rows = Prototypes(ids, means.vectors, means.counts)
    mistaken = suspects(replace(labelled.contribution, means=rows), whitened(rest, shrinkage))
    names = {number: name for name, number in ledger.ids.items()}
    return tuple(
        SuspectClass(agent, names[pair.label], names[pair.looks_like]) for pair in mistaken
    )
