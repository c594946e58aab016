import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protofleet.errors import FusionError
from protofleet.masking.layout import Lanes, Layout
from protofleet.masking.rooms import GRID_BITS, Room
from protofleet.values.sums import Bag, Sum, digest, merge_all

NARROW, WIDE = Room(4, 24, 2.0**20, 9), Room(4, GRID_BITS, 2.0**40, 9)
halves = st.floats(-1000, 1000, width=16)
uploads = st.lists(
    st.dictionaries(
        st.integers(0, 3), st.tuples(st.lists(halves, min_size=2, max_size=2), st.integers(0, 9))
    ),
    min_size=1,
    max_size=6,
)


def partial(rows):
    keys = sorted(rows)
    values = np.array([rows[k][0] for k in keys], np.float32).reshape(-1, 2)
    return {"s": Sum.of(keys, values, np.array([rows[k][1] for k in keys], np.int64))}


@given(uploads, st.sampled_from([NARROW, WIDE]))
def test_what_is_added_in_the_ring_is_the_exact_sum(items, room):
    parts = [partial(rows) for rows in items]
    layout = Layout.of({"s": room}, parts[0], len(parts))
    total = layout.zeros()
    for part in parts:
        total = total.plus(layout.decode(layout.encode(layout.pack(part))))
    assert digest(layout.unpack(total)) == digest(merge_all(parts))


@given(st.binary(min_size=64, max_size=64), st.binary(min_size=64, max_size=64))
def test_words_are_added_as_python_adds_integers(one, two):
    a, b = Lanes.read(one, 2, 3), Lanes.read(two, 2, 3)
    for result, wanted in ((a.plus(b), lambda x, y: x + y), (a.minus(b), lambda x, y: x - y)):
        for lane in range(2):
            true = wanted(int(a.narrow[lane]), int(b.narrow[lane])) % 2**64
            assert int(result.narrow[lane]) == true
        for lane in range(3):
            x, y = (int(v.low[lane]) + (int(v.high[lane]) << 64) for v in (a, b))
            assert int(result.low[lane]) + (int(result.high[lane]) << 64) == wanted(x, y) % 2**128


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_total_has_room_and_comes_back(wide, sign):
    room = Room(1, GRID_BITS if wide else 24, 2.0**22, 1, (1,))
    one = {"s": Sum.of([0], [[sign * 2.0**22]], 1)}
    layout = Layout.of({"s": room}, one, 5)
    total = layout.zeros()
    for _ in range(5):
        total = total.plus(layout.pack(one))
    assert layout.unpack(layout.decode(layout.encode(total)))["s"].total()[0, 0] == sign * 5 * 2**22


def test_every_class_has_a_place_whoever_holds_it():
    some, none = partial({1: ([1.0, 2.0], 3)}), partial({})
    room = Room(4, 24, 2.0**20, 9, (2,))
    one, two = (Layout.of({"s": room}, part, 3) for part in (some, none))
    assert one.digest() == two.digest()
    assert len(one.encode(one.pack(some))) == len(two.encode(two.pack(none))) == one.octets
    assert not one.unpack(one.pack(none))


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        ({"s": Sum.of([4], [[1.0]], 1)}, "key 4 of 4"),
        ({"s": Sum.of([0], [[1.0]], 10)}, "a weight of 10, at most 9"),
        ({"s": Sum.of([0], [[2.0**21]], 1)}, r"a sum of 2\.1e\+06, at most 1\.05e\+06"),
        ({"s": Sum.of([0], [[2.0**-30]], 1)}, r"finer than 2\^-24"),
        ({"s": Bag.of("a", 1, {})}, "only what is a sum"),
        ({"t": Sum.of([0], [[1.0]], 1)}, "t: no room"),
    ],
)
def test_what_has_no_room_is_refused_in_one_line(sums, words):
    with pytest.raises(FusionError, match=words):
        Layout.of({"s": NARROW}, sums, 3).pack(sums)


def test_a_ring_beyond_two_limbs_is_refused_before_anything_is_masked():
    wide = Room(1, GRID_BITS, 2.0**60, 1, (1,))
    with pytest.raises(FusionError, match="draw the fleet's limits closer"):
        Layout.of({"s": wide}, {}, 3)


def test_bytes_of_another_size_are_refused():
    layout = Layout.of({"s": Room(4, 24, 1.0, 1, (2,))}, {}, 3)
    with pytest.raises(FusionError, match="a masked upload of 1 bytes"):
        layout.decode(b"x")
