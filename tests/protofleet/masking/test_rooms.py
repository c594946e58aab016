import pytest

from protofleet.errors import FusionError
from protofleet.masking.rooms import GRID_BITS, Room, mean_room, room_of, tensor_room
from tests.masking import limits


def test_half_precision_below_2_7_over_2_24_samples_takes_56_bits():
    # 24 bits after the point, 7 before it, 24 of samples and a sign; a total of exactly 2⁵⁵ steps
    # would be one too many.
    room = mean_room(10, 504, "half", limits(128, norm=127.9, samples=2**17), by_count=True)
    assert room.bits(128) == 56
    assert room.weight_bits(128) == 25


def test_no_total_of_the_largest_values_leaves_its_bits():
    for devices in (1, 3, 100):
        for room in (Room(1, 24, 128.0, 1), Room(1, GRID_BITS, 3.5, 7), Room(1, 10, 2.0**-9, 1)):
            assert room.most * devices * 2**room.point <= 2 ** (room.bits(devices) - 1) - 1
            assert room.weight * devices < 2 ** room.weight_bits(devices)


def test_tensors_share_the_room_of_their_prefix():
    rooms = {"weights/": tensor_room(limits(3), weighted=True), "prototypes": Room(2, 24, 1.0, 1)}
    assert room_of("weights/head.0/bias", rooms) is rooms["weights/"]
    with pytest.raises(FusionError, match="pool: no room"):
        room_of("pool", rooms)
