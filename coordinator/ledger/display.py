"""Which of a ledger's classes devices may answer by, and how: pure functions of what it comes to,
of the bundle, and of the book.
"""

# A bundle may know classes before anybody contributed, by prototypes that it came with. As long as
# contributions to one of them are missing, a head of the ledger's classes alone would take that one
# away from every device. So until all of them are covered what is shown is means: the ledger's for
# every class that it has, the bundle's own for the others. From then on it is the head.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator.ledger.admission import is_shown
from coordinator.ledger.books import Book
from protofleet.exchange import learned
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Head, Parts, Prototypes


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a ledger comes to: ids are places among the class names."""

    about: About
    head: Head
    means: Prototypes


def learnt_of(lineage: str, classes: Sequence[str], state: Parts) -> Learnt | None:
    """What a state of rounds comes to, under the extractor that they were made through."""
    head, means = state.get(learned.HEAD), state.get(learned.MEANS)
    if not isinstance(head, Head) or not isinstance(means, Prototypes):
        return None
    about = About(lineage, tuple(classes), calibration=learned.calibration(state))
    return Learnt(about, head, means)


def bank(learnt: Learnt, extractor: Bank, book: Book, agreed: Sequence[str]) -> Bank:
    """What is published under the names that classes are shown by; of the others not even the name
    leaves.
    """
    names = learnt.about.classes
    public, everybody = names_shown(names, book), frozenset(agreed)
    places = [i for i, name in enumerate(names) if is_shown(name, book, everybody)]
    about = replace(
        learnt.about, classes=tuple(public[names[i]] for i in places), bundle=book.bundle
    )
    missing = in_bundle(extractor) - {names[i] for i in learnt.means.classes} - set(book.removed)
    if missing and isinstance(extractor.points, Prototypes):
        about = About(about.lineage, about.classes, about.bundle)
        return Bank(about, _joined(learnt, extractor, [names[i] for i in places]))
    head = learnt.head.only(places)
    ids = np.searchsorted(places, head.classes)  # places ascend
    return Bank(about, Head(ids, head.weight, head.bias))


def names_shown(names: Sequence[str], book: Book) -> dict[str, str]:
    """What each class is shown by; nothing is shown by the name of another."""
    return {
        name: to if (to := book.renamed.get(name, name)) not in names else name for name in names
    }


def in_bundle(extractor: Bank) -> set[str]:
    """Classes that the bundle has points of."""
    return {extractor.about.classes[int(c)] for c in np.unique(extractor.points.classes)}


def _joined(learnt: Learnt, extractor: Bank, names: Sequence[str]) -> Prototypes:
    """The ledger's mean of each class that it has, else the bundle's prototypes."""
    assert isinstance(extractor.points, Prototypes)
    ids, rows = [np.zeros(0, np.int64)], [np.zeros((0, extractor.points.dim), np.float32)]
    for place, name in enumerate(names):
        points = learnt.means.only([learnt.about.classes.index(name)])
        if not len(points.classes) and name in extractor.about.classes:
            points = extractor.points.only([extractor.about.classes.index(name)])
        ids.append(np.full(len(points.classes), place, np.int64))
        rows.append(points.vectors)
    return Prototypes(np.concatenate(ids), np.concatenate(rows))
