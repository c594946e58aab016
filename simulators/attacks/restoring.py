"""Samples restored from one contribution: class means are put before a decoder that was trained on
public images under the same extractor.
"""

# A class mean of one sample is that sample's vector, and what a decoder makes of it is that image.
# Of more samples it is the image of none of them. With two, the covariance undoes the mean: a
# device whose only class has samples a and b sends (a + b)/2 and one row, (a − b)/√2 up to its
# sign, so a and b again.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from protofleet.statistics.contribution import Contribution, scaled
from protofleet.util import seeds
from protofleet.values.prototypes import Floats, Ints
from simulators.attacks.decoder import Decoder
from simulators.attacks.defences import Defences, spoken
from simulators.attacks.population import Population
from simulators.attacks.restored import Restoration, Restored, judged

CANDIDATES = 200  # images of the class, among which the right ones are to be found


def restored(
    people: Population, decoder: Decoder, samples: int, uploads: int, defences: Defences
) -> Restored | None:
    """Of so many uploads of one class each; None where nothing is spoken."""
    rng = seeds.generator("restoring", samples)
    several: list[Restoration] = []
    for turn in range(uploads):
        own, others, stranger = _drawn(people, turn % people.classes, samples, rng)
        upload = _upload(people, own, defences)
        strange = _upload(people, stranger, defences)
        if upload is None or strange is None:
            continue
        images = people.private.images
        guess = decoder.images(vectors(strange)[:1])[0]
        several += [
            Restoration(image, images[own], images[others], guess)
            for image in decoder.images(vectors(upload))
        ]
    return judged(samples, several) if several else None


def vectors(own: Contribution) -> Floats:
    """The class means; of a class of two samples that is a device's only one both of them."""
    counts = np.asarray(own.means.counts)
    if counts.tolist() != [2] or not len(own.rows):
        return own.means.vectors
    apart = scaled(own.rows, own.exponents)[0] / np.sqrt(2)
    middle = own.means.vectors[0]
    return np.stack([middle + apart, middle - apart]).astype(np.float32)


def _drawn(
    people: Population, c: int, samples: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Rows of this class: the device's, others that it might have, and a stranger's."""
    rows = rng.permutation(people.private.of_class(c))
    own, stranger, rest = np.split(rows, [samples, 2 * samples])
    return own, rest[: max(0, CANDIDATES - samples)], stranger


def _upload(people: Population, rows: Ints, defences: Defences) -> Contribution | None:
    owned = people.private.at(rows)
    return spoken(owned.features, owned.labels, people.grid, defences)


def table(
    people: Population,
    decoder: Decoder,
    samples: Sequence[int],
    uploads: int,
    settings: Sequence[Defences],
) -> list[tuple[int, Defences, Restored | None]]:
    """Every number of samples under every setting."""
    return [(n, d, restored(people, decoder, n, uploads, d)) for n in samples for d in settings]
