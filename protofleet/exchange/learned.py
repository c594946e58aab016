"""What a total comes to, as parts of a state: the head that devices run and how sure it is, and the
means and scatter that they count against.

The laboratory's `fleet` and a live ledger make their states here, so equal sums and counts have
equal hashes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protofleet.errors import FusionError
from protofleet.exchange.published import document_part, plain_of
from protofleet.exchange.state import GlobalState
from protofleet.settings.fields import from_plain
from protofleet.statistics.adoption import Verdict
from protofleet.statistics.closed_form import Moments
from protofleet.statistics.closed_form import moments as moments_of
from protofleet.statistics.contribution import square, triangle
from protofleet.statistics.counts import Counts
from protofleet.statistics.knowledge import Knowledge, knowledge
from protofleet.statistics.reliability import FALSE_ALARMS, Calibration
from protofleet.values.prototypes import Floats, Ints, Parts, Prototypes, Tensors
from protofleet.values.sums import Partial, as_tensors

HEAD, CALIBRATION, MEANS, WITHIN, TOTAL = "head", "calibration", "means", "within", "total"
VERDICT = "verdict"
_EXPONENT, _ENTRIES = "exponent", "entries"


def state(
    total: Partial,
    counts: Counts | None = None,
    *,
    heard: Partial | None = None,
    current: bool = True,
    false_alarms: float = FALSE_ALARMS,
) -> tuple[GlobalState, Knowledge | None]:
    """The state of these sums and counts, and the knowledge in it; nothing while there are none.
    `heard` is what of a total in buckets the classifier is made of.
    """
    of = moments_of(total if heard is None else heard)
    if of is None:
        return GlobalState(), None
    whole = knowledge(of, counts, current=current, false_alarms=false_alarms)
    shared: Parts = {
        HEAD: whole.head,
        CALIBRATION: document_part(whole.calibration),
        **parts(of),
    }
    return GlobalState(shared, server={TOTAL: as_tensors(total)}), whole


def parts(of: Moments) -> Parts:
    """Means with counts, and S rounded to the half precision in which it travels.

    Entries are scaled by a power of two so that the usual variance is about 1: half precision has
    few digits left for what is far below it.
    """
    exponent = int(np.floor(np.log2(of.size)))
    entries = (triangle(of.within) * 2.0**-exponent).astype(np.float16).astype(np.float32)
    return {
        MEANS: Prototypes(
            of.classes, of.means.astype(np.float32), np.rint(of.counts).astype(np.int64)
        ),
        WITHIN: Tensors({_ENTRIES: entries, _EXPONENT: np.array([exponent + 64], np.int64)}),
    }


def moments(of: Parts) -> Moments:
    """From the parts that came, checked."""
    means, entries = _checked(of)
    counts, rows = np.asarray(means.counts, np.float64), means.vectors.astype(np.float64)
    return Moments(means.classes, counts, rows, square(entries, means.dim) * _scale(of))


def spread(of: Parts) -> tuple[Prototypes, NDArray[np.float64]]:
    """The means, and the variance of each feature about them: without a matrix of d × d."""
    means, entries = _checked(of)
    # Row i of the triangle begins with its diagonal, and is one entry shorter than that before it.
    places = np.concatenate([[0], np.cumsum(np.arange(means.dim, 1, -1))])
    return means, entries[places].astype(np.float64) * _scale(of)


def _scale(of: Parts) -> float:
    within = of[WITHIN]
    assert isinstance(within, Tensors)  # it was checked
    return float(2.0 ** (min(max(int(within[_EXPONENT][0]), 0), 128) - 64))


def _checked(of: Parts) -> tuple[Prototypes, Floats | Ints]:
    """Means, and the entries of S."""
    means, within = of.get(MEANS), of.get(WITHIN)
    if not isinstance(means, Prototypes) or not isinstance(within, Tensors):
        raise FusionError(f"{MEANS} and {WITHIN} are due")
    if means.counts is None or not len(means.classes) or not means.counts.all():
        raise FusionError(f"{MEANS}: each with its samples are due")
    if within.arrays.keys() != {_ENTRIES, _EXPONENT}:
        raise FusionError(f"{WITHIN}: {_ENTRIES} and their {_EXPONENT} are due")
    entries, exponent = within[_ENTRIES], within[_EXPONENT]
    if entries.shape != (means.dim * (means.dim + 1) // 2,) or exponent.shape != (1,):
        raise FusionError(f"{WITHIN}: the upper triangle of {means.dim} × {means.dim} is due")
    return means, entries


def calibration(of: Parts) -> Calibration | None:
    """How sure the head is; None where there is none."""
    part = of.get(CALIBRATION)
    return None if part is None else from_plain(Calibration, plain_of(part, CALIBRATION))


def verdict(of: Parts) -> Verdict | None:
    """Whether the extractor of this state took another one's place; None where none was due."""
    part = of.get(VERDICT)
    return None if part is None else from_plain(Verdict, plain_of(part, VERDICT))
