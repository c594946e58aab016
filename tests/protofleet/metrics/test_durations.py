"""Durations take the same room however often something happens, and lose none."""

from hypothesis import given
from hypothesis import strategies as st

from protofleet.metrics.durations import EDGES, Durations, of_document


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_each_is_counted_once_where_it_belongs(times):
    durations = Durations()
    for seconds in times:
        durations = durations.plus(seconds)
    edges, counts, total = of_document(durations.document)
    for at, edge in enumerate(edges):
        assert sum(counts[: at + 1]) == sum(seconds <= edge for seconds in times)
    assert sum(counts) == len(times)
    assert total == sum(times)


def test_what_says_nothing_has_none():
    assert of_document(None) is None
    assert of_document({}) is None
    assert len(Durations().counts) == len(EDGES) + 1
