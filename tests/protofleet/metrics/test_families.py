"""Measurements as values: names that Prometheus's users expect, and nothing where nothing is
known.
"""

import pytest

from protofleet.metrics import families
from protofleet.metrics.families import Family, Point, by, capped, counter, gauge, histogram, info


def test_what_nobody_measured_is_absent_and_not_nought():
    assert gauge("protofleet_accuracy_ratio", "?", None).points == ()
    shares = by("gauge", "protofleet_accuracy_ratio", "?", "measure", {"head": 0.5, "own": None})
    assert shares.points == (Point(0.5, (("measure", "head"),)),)
    assert gauge("protofleet_broker_connected", "?", False).points == (Point(0.0),)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("uploads_total", "counter"),
        ("protofleet_uploads", "counter"),
        ("protofleet_uploads_total", "gauge"),
        ("protofleet_Uploads", "gauge"),
        ("protofleet_run_info", "gauge"),
        ("protofleet_run", "info"),
    ],
)
def test_a_name_that_says_the_wrong_thing_is_refused(name, kind):
    with pytest.raises(ValueError, match="is no name of a"):
        Family(name, kind, "?", ())


def test_a_histogram_counts_what_is_below_each_edge():
    family = histogram("protofleet_fusion_seconds", "?", (0.1, 1.0), (2, 0, 3), 9.5)
    assert [(p.suffix, p.labels, p.value) for p in family.points] == [
        ("_bucket", (("le", "0.1"),), 2),
        ("_bucket", (("le", "1.0"),), 2),
        ("_bucket", (("le", "+Inf"),), 5),
        ("_count", (), 5),
        ("_sum", (), 9.5),
    ]


def test_labels_are_bounded_and_printable():
    family = info("protofleet_run_info", "?", run="a\x1b[2J\n" + "x" * 500)
    ((_, text),) = family.points[0].labels
    assert len(text) == families.LONGEST_LABEL
    assert text.startswith("a?[2J?x")


def test_beyond_the_cap_the_rest_is_a_number():
    assert capped(["a", "b", "c"], 2) == (("a", "b"), 1)
    assert capped(["a"], 2) == (("a",), 0)
    assert counter("protofleet_uploads_total", "?", 3).points == (Point(3.0),)
