"""What changed is told from chance, from another mixture of classes, and from a device's offset."""

import numpy as np
import pytest

from protofleet.errors import SettingError
from protofleet.statistics.drift import (
    BLOCK,
    KEPT,
    LEAST,
    DriftReference,
    DriftReport,
    DriftWindow,
    UsualShare,
    exceeds,
    report,
    share_outside,
    usual_share,
)
from protofleet.statistics.held_out import ODDITIES
from protofleet.statistics.reliability import STRETCH

D, NAMES = 60, ("apple", "pear", "plum")
SPREAD = np.linspace(0.2, 3.0, D)
CENTRES = np.random.default_rng(0).normal(size=(3, D)) * 3
CAMERA = np.random.default_rng(1).normal(size=D)  # its offset from the fleet's
FLEET = dict(zip(NAMES, CENTRES, strict=True))
USUAL = UsualShare(0.05)


def seen(rng, shares=(1, 1, 1), offset=CAMERA, blocks=KEPT):
    """A window of photos of this camera."""
    labels = rng.choice(3, blocks * BLOCK, p=np.array(shares) / sum(shares))
    features = CENTRES[labels] + offset + rng.normal(size=(len(labels), D)) * SPREAD
    answered = tuple(NAMES[i] for i in np.unique(labels))
    unknown = rng.random((blocks, BLOCK)) < USUAL.share
    return DriftWindow(features.reshape(blocks, BLOCK, D).mean(1), unknown.mean(1), answered)


def reference(rng, number=40):
    """Two classes of three have labels on this device."""
    own = {
        name: ((CENTRES[i] + CAMERA + rng.normal(size=(number, D)) * SPREAD).mean(0), number)
        for i, name in enumerate(NAMES[:2])
    }
    return DriftReference.of(FLEET, SPREAD**2, own)


def named(window, against):
    return exceeds(report(window, against, labelled=True), USUAL)


def test_neither_another_mixture_of_classes_nor_the_cameras_own_offset_is_drift():
    rng = np.random.default_rng(2)
    mixtures = [(1, 1, 1), (1, 0, 0), (0, 0, 1), (5, 1, 0)]
    windows = [seen(rng, mixture) for mixture in mixtures for _ in range(50)]
    assert sum(any(named(window, reference(rng))) for window in windows) <= 2
    by_fleet_alone = DriftReference.of(FLEET, SPREAD**2)
    assert all(named(window, by_fleet_alone)[1] for window in windows)


@pytest.mark.parametrize(("blocks", "far"), [(LEAST, 0.6), (KEPT, 0.25)])
def test_a_camera_that_moved_is_named_and_by_how_much(blocks, far):
    rng = np.random.default_rng(3)
    against = reference(rng)
    way = rng.normal(size=D)
    way *= far * SPREAD / np.sqrt((way**2).mean())
    reports = [
        report(seen(rng, offset=CAMERA + way, blocks=blocks), against, labelled=True)
        for _ in range(20)
    ]
    assert sum(exceeds(one, USUAL)[1] for one in reports) >= 18
    assert np.median([one.distance for one in reports]) == pytest.approx(far, rel=0.25)
    assert not any(exceeds(one, USUAL)[0] for one in reports)


def test_photos_that_come_in_bursts_have_a_larger_error():
    rng, blocks = np.random.default_rng(4), KEPT
    shares = np.repeat([0.0, 0.3], blocks // 2)  # one day of unknown things, one without
    calm = DriftReport(blocks, 0.15, 0.02)
    burst = report(DriftWindow(np.zeros((blocks, D)), shares, ()), None, labelled=False)
    assert (burst.unknown, burst.moved) == (0.15, None)
    assert burst.unknown_error > calm.unknown_error
    assert exceeds(calm, USUAL)[0]
    assert not exceeds(DriftReport(blocks, 0.15, 0.05), USUAL)[0]
    few = seen(rng, blocks=LEAST - 1)
    assert report(few, reference(rng), labelled=True) is None


def test_a_camera_that_looks_at_one_thing_has_seen_one_sample():
    rng = np.random.default_rng(5)
    against = reference(rng)
    one, other = CENTRES[0] + rng.normal(size=(2, D)) * SPREAD
    assert against.is_still(one + 0.1 * SPREAD, one)
    assert not against.is_still(one, other)


def test_what_is_usual_of_a_device_is_drawn_from_the_promise_as_far_as_devices_differ():
    alike = dict.fromkeys("abc", (0.05, 400))
    assert usual_share(0.05, alike, "a") == UsualShare(0.05)
    assert usual_share(0.05, {}, "a") == UsualShare(0.05)
    apart = {"a": (0.0, 400), "b": (0.02, 400), "c": (0.13, 400)}
    own, stranger = usual_share(0.05, apart, "c"), usual_share(0.05, apart, "x")
    assert 0.1 < own.share < 0.13
    assert stranger.share == 0.05
    assert 0 < own.error < 0.02 < stranger.error < 0.1


def test_a_histograms_share_outside_is_that_of_its_samples():
    rng = np.random.default_rng(6)
    odd = rng.normal(-40, 20, 20_000)
    at = np.floor(np.arcsinh(odd) / STRETCH).astype(int) + ODDITIES // 2
    histogram = np.bincount(at, minlength=ODDITIES)
    for usual in ((-90.0, -10.0), (-200.0, 1.0)):
        share = np.mean((odd < usual[0]) | (odd > usual[1]))
        assert share_outside(histogram, usual) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    "numbers",
    [
        (LEAST - 1, 0.1, 0.0),
        (KEPT + 1, 0.1, 0.0),
        (KEPT, 1.1, 0.0),
        (KEPT, float("nan"), 0.0),
        (KEPT, 0.1, -0.1),
        (KEPT, 0.1, 0.0, float("nan")),
        (KEPT, 0.1, 0.0, 0.0, float("inf")),
    ],
)
def test_a_report_of_numbers_that_cannot_be_is_none(numbers):
    with pytest.raises(SettingError):
        DriftReport(*numbers)
