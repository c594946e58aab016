"""A site's sums and counts as they travel: exact, the same bytes each time, and held to what sums
are.
"""

from dataclasses import replace

import numpy as np
import pytest

from protofleet import wire
from protofleet.errors import FusionError, WireError
from protofleet.exchange import relayed
from protofleet.exchange.relayed import RELAY, RELAY_COUNT, RelayClaim
from protofleet.statistics import contribution, counts, voices
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import MEANS, SCATTER
from protofleet.statistics.held_out import Samples
from protofleet.values import sums
from protofleet.values.prototypes import Tensors
from protofleet.wire import Envelope
from tests.contributing import GRID, samples

HEAD = Envelope("enrol", "orchard", "r1", agent="north", method=RELAY)
WHO = {"a": ("apple", "plum"), "b": ("apple", "pear"), "c": ("plum",)}
NAMES = ("apple", "pear", "plum")


def folded(buckets=1):
    """The sums of three devices."""
    whole = {}
    for agent, names in WHO.items():
        own = contribution.contribution(*samples(names), GRID)
        partial = contribution.fold(own, GRID)
        ids = np.array([NAMES.index(name) for name in names])
        partial = {**partial, MEANS: partial[MEANS].keyed(ids)}
        whole = sums.merge(whole, voices.placed(partial, agent, buckets))
    return whole


def claim(buckets=1, **more):
    words = {"lineage": "extractor:e", "members": tuple(WHO), "classes": NAMES}
    return RelayClaim(**words | {"holders": (2, 1, 2), "buckets": buckets} | more)


@pytest.mark.parametrize("buckets", [1, 3, 40])
def test_sums_come_back_to_the_bit_and_say_whose_they_are(buckets):
    whole = folded(buckets)
    data = relayed.write_total(claim(buckets), whole, HEAD)
    assert data == relayed.write_total(claim(buckets), folded(buckets), HEAD)
    again = relayed.read(data)
    assert sums.digest(again.partial) == sums.digest(whole)
    assert (again.claim, again.samples) == (
        claim(buckets),
        {"apple": 12, "pear": 6, "plum": 12},
    )
    # What was said can be taken away again.
    rest = sums.subtract(sums.merge(whole, whole), again.partial)
    assert sums.digest(rest) == sums.digest(whole)


def test_a_sum_beyond_two_limbs_is_not_said():
    part = sums.Sum.of([0], np.full((1, 2), 2.0**22), 2**30)
    for _ in range(12):
        part = part.merge(part)
    with pytest.raises(FusionError, match="too large"):
        relayed.write_total(claim(), {**folded(), MEANS: part}, HEAD)


def changed(of, **arrays):
    """The message with other arrays in one of its parts."""
    message = wire.decode(relayed.write_total(claim(), folded(), HEAD))
    part = Tensors({**message.body[of].arrays, **arrays})
    return wire.encode(HEAD, {**message.body, of: part}, "float32")


BYTES = wire.decode(relayed.write_total(claim(), folded(), HEAD)).body[MEANS]["bytes"]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (changed(MEANS, keys=np.array([0, 2, 1])), "keys that rise"),
        (changed(MEANS, keys=np.array([0, 1, 3])), "every class that is named"),
        (changed(MEANS, weights=np.array([12, 0, 12])), "samples are due"),
        (changed(MEANS, weights=np.array([12, 6, 13])), "not of the same samples"),
        (changed(MEANS, weights=np.array([12, 6])), "its key and weight"),
        (changed(MEANS, bytes=BYTES[:2]), "bytes of every row"),
        (changed(MEANS, bytes=BYTES.astype(np.int64) + 256), "bytes are due"),
        (changed(MEANS, first=np.array([11])), "bytes from the"),
        (changed(MEANS, bytes=np.full((3, 4, 12), 127), first=np.array([0])), "no sum of honest"),
        (changed(MEANS, extra=np.array([1])), "keys, weights, bytes"),
        (changed(SCATTER, keys=np.array([1])), "is no bucket"),
        (changed(SCATTER, bytes=np.ones((1, 9, 3), np.int64)), "upper triangle"),
    ],
)
def test_what_is_no_sum_is_refused(payload, words):
    with pytest.raises(WireError, match=words):
        relayed.read(payload)


@pytest.mark.parametrize(
    "about",
    [
        {"members": ()},
        {"members": ("a", "a")},
        {"holders": (2, 1)},
        {"holders": (4, 1, 2)},
        {"buckets": 0},
        {"classes": ("apple", "apple", "plum")},
    ],
)
def test_what_is_no_claim_is_refused(about):
    from protofleet.errors import SettingError

    with pytest.raises(SettingError):
        claim(**about)


def test_rows_in_a_bucket_that_nobody_is_in_are_refused():
    many = 40
    whole = folded(many)
    data = relayed.write_total(claim(many), whole, HEAD)
    assert relayed.read(data)
    strangers = replace(claim(many), members=("x", "y", "z"))
    with pytest.raises(WireError, match="not those of the devices"):
        relayed.read(relayed.write_total(strangers, whole, HEAD))


def test_other_parts_and_other_types_are_refused():
    message = wire.decode(relayed.write_total(claim(), folded(), HEAD))
    with pytest.raises(WireError, match="nothing else"):
        relayed.read(wire.encode(HEAD, {**message.body, "more": message.body[MEANS]}, "float32"))
    with pytest.raises(WireError, match="relay or relay-count"):
        relayed.read(wire.encode(replace(HEAD, method="count"), message.body, "float32"))


def own_counts(buckets):
    """What each device counts, by bucket."""
    of, by_bucket = moments(folded()), {}
    for agent, names in WHO.items():
        features, labels = samples(names)
        ids = np.array([NAMES.index(name) for name in names])
        own = contribution.contribution(features, labels, GRID).keyed(ids)
        one = counts.count(of, Samples.of(features, ids[labels], own))
        bucket = voices.bucket_of(agent, buckets)
        by_bucket[bucket] = by_bucket[bucket].plus(one) if bucket in by_bucket else one
    return by_bucket


def test_counts_come_back_by_bucket_with_who_counted():
    head = replace(HEAD, method=RELAY_COUNT)
    about = RelayClaim("extractor:e", tuple(WHO), total="ab" * 32, buckets=40)
    by_bucket = own_counts(40)
    report = relayed.read(relayed.write_counts(about, by_bucket, head))
    assert {bucket: names for bucket, (names, _) in report.shares.items()} == about.by_bucket()
    for bucket, own in by_bucket.items():
        again = report.shares[bucket][1]
        assert (again.samples, again.losses.tolist()) == (own.samples, own.losses.tolist())
        assert again.confused.pairs.tolist() == own.confused.pairs.tolist()


def test_counts_of_nobody_and_of_too_many_samples_are_refused():
    head = replace(HEAD, method=RELAY_COUNT)
    about = RelayClaim("extractor:e", tuple(WHO), total="ab" * 32)
    by_bucket = own_counts(1)
    with pytest.raises(WireError, match="counts of nobody"):
        relayed.read(relayed.write_counts(about, {**by_bucket, 3: by_bucket[0]}, head))
    with pytest.raises(WireError, match="are due"):
        relayed.read(relayed.write_counts(about, {}, head))
    many = replace(by_bucket[0], samples=counts.MOST * 3 + 1)
    with pytest.raises(WireError, match=f"at most {counts.MOST * 3} samples"):
        relayed.read(relayed.write_counts(about, {0: many}, head))
