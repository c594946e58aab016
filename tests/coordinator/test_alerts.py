"""What is wrong is one sentence and one suggestion, once, and gone with its reason."""

import pytest

from coordinator.alerts import (
    DAY,
    FEW,
    Alert,
    DeviceGlance,
    DiskSpace,
    Measurement,
    Situation,
    alerts,
    lasting,
    since,
)

WRONG = [
    (Situation(connected=False), "broker", "no connection to the broker"),
    (Situation(trouble="singular"), "classifier", "comes to no classifier"),
    (Situation((DeviceGlance("a", 300.0),)), "silent", "a has been silent for 5 minutes."),
    (Situation((DeviceGlance("a", refusal="too old"),)), "refused", "a sends is refused: too old"),
    (Situation((DeviceGlance("a", notice="no room"),)), "refused", "a says: no room"),
    (Situation((DeviceGlance("a", drift="a: it changed"),)), "drift", "a: it changed"),
    (Situation((DeviceGlance("a", suspects=("x", "y")),)), "suspect", "x, and 1 more like that."),
    (Situation((DeviceGlance("a", doubted=True),)), "doubted", "contradict a"),
    (Situation(waiting=("owl", "elk")), "waiting", "owl, elk wait for your word."),
    (Situation(disk=DiskSpace(10**8, 10**11)), "disk", "100 MB are free"),
    (Situation(certificates=(("a", 3 * DAY),)), "certificate", "of a ends in 3 days."),
    (Situation(certificates=(("a", -5.0),)), "certificate", "of a has ended."),
    (Situation(own_certificates=(("broker", DAY),)), "certificate", "of the broker ends in 24 h"),
]


@pytest.mark.parametrize(("now", "kind", "words"), WRONG)
def test_each_trouble_is_one_sentence_and_says_what_to_do(now, kind, words):
    (alert,) = alerts(now)
    assert alert.kind == kind
    assert words in alert.sentence
    assert alert.suggestion.endswith(".")


def test_nothing_is_wrong_where_nothing_is():
    calm = Situation(
        (DeviceGlance("a"),),
        history=(Measurement(0.9, 500), Measurement(0.89, 500)),
        disk=DiskSpace(2 * 10**9, 10**12),
        certificates=(("a", 60 * DAY),),
    )
    assert alerts(calm) == ()
    # A small disk may be as small as it is, as long as there is room on it.
    assert alerts(Situation(disk=DiskSpace(5 * 10**8, 10**9))) == ()


@pytest.mark.parametrize(
    ("shares", "samples", "fell"),
    [
        ((0.9, 0.9, 0.8), 1000, True),
        ((0.9, 0.9, 0.86), 100_000, False),  # sure, and too little
        ((0.9, 0.9, 0.8), 20, False),  # much, and by chance
        ((0.5, 0.9), 1000, False),
        ((0.9,), 1000, False),
        ((), 0, False),
    ],
)
def test_accuracy_falls_by_more_than_chance_and_by_enough_to_matter(shares, samples, fell):
    history = tuple(Measurement(share, samples) for share in shares)
    assert bool(alerts(Situation(history=history))) is fell


def test_the_worst_comes_first():
    now = Situation((DeviceGlance("a", drift="moved"), DeviceGlance("b", 9.0)), waiting=("owl",))
    assert [alert.kind for alert in alerts(now)] == ["silent", "drift", "waiting"]


def test_of_many_devices_one_alert_speaks():
    def dark(number):
        return alerts(Situation([DeviceGlance(f"c{n}", 60.0) for n in range(number)]))

    assert len(dark(FEW)) == FEW
    (one,) = dark(40)
    assert one.sentence == "40 of 40 devices are silent: c0, c1, c2, c3, c4 and 35 more."
    (certificates,) = alerts(Situation(certificates=[(f"c{n}", DAY) for n in range(9)]))
    assert certificates.sentence.startswith("9 certificates end within 21 days: c0")


def test_an_alert_is_the_same_one_however_its_sentence_goes_on():
    first = alerts(Situation((DeviceGlance("a", 60.0), DeviceGlance("b", 60.0))))
    later = alerts(Situation((DeviceGlance("a", 600.0), DeviceGlance("c", 60.0))))
    fresh, over = since((alert.key for alert in first), later)
    assert ([alert.subject for alert in fresh], over) == (["c"], ["silent b"])
    assert since((alert.key for alert in later), later) == ([], [])
    assert Alert("disk", "", "x", "y").key == "disk"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 seconds"), (119, "119 seconds"), (600, "10 minutes"), (7200, "2 hours")],
)
def test_times_are_said_as_people_say_them(seconds, words):
    assert lasting(seconds) == words
