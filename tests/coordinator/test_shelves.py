"""A map that is a value: it behaves as a dict does, and a copy costs what changed."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.shelves import SHELVES, Shelves

KEYS = st.sampled_from([f"device-{n}" for n in range(40)])
STEPS = st.lists(st.tuples(st.booleans(), st.dictionaries(KEYS, st.integers(), max_size=5)))


@given(STEPS)
def test_it_is_what_a_dict_would_be_and_stays_it(steps):
    earlier, table, plain = [], Shelves(), {}
    for adds, rows in steps:
        earlier.append((table, dict(plain)))
        if adds:
            table, plain = table.plus(rows), {**plain, **rows}
        else:
            table = table.minus(rows)
            plain = {key: value for key, value in plain.items() if key not in rows}
    for one, other in [*earlier, (table, plain)]:
        assert one == other
        assert len(one) == len(other)
        assert sorted(one) == sorted(other)
        assert sorted(one.values()) == sorted(other.values())
        assert sorted(one.items()) == sorted(other.items())
        assert one.items() >= other.items()


def test_what_is_not_there_is_missed_as_in_a_dict():
    table = Shelves({"a": 1})
    assert table.get("b", 2) == 2
    assert "b" not in table
    assert {**table, "b": 2} == {"a": 1, "b": 2}
    assert table.minus(["b", "b"]) == table
    assert repr(table) == "Shelves({'a': 1})"


def test_a_copy_shares_all_shelves_but_those_that_changed():
    table = Shelves({f"device-{n:05}": n for n in range(10_000)})
    changed = table.plus({"device-00007": -1})
    fresh = [a for a, b in zip(changed.shelves, table.shelves, strict=True) if a is not b]
    assert len(fresh) == 1
    assert len(fresh[0]) < 10 * 10_000 / SHELVES
    assert (table["device-00007"], changed["device-00007"]) == (7, -1)
    gone = changed.minus(["device-00007", "device-nobody"])
    assert (len(gone), len(changed)) == (9_999, 10_000)
