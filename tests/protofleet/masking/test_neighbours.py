import pytest

from protofleet.errors import UsageError
from protofleet.masking.neighbours import circle, degree, threshold


@pytest.mark.parametrize(("devices", "dropouts"), [(3, 0), (4, 1), (21, 9), (22, 9), (100, 30)])
def test_everybody_has_the_same_number_of_neighbours_and_who_is_one_is_mutual(devices, dropouts):
    keys = {f"d{n}": bytes([n]) * 32 for n in range(devices)}
    around = circle(keys, b"session", degree(devices, dropouts))
    assert {len(others) for others in around.values()} == {degree(devices, dropouts)}
    assert all(name in around[other] for name, others in around.items() for other in others)
    assert all(name not in others for name, others in around.items())


@pytest.mark.parametrize("devices", [4, 22, 60, 200])
def test_enough_neighbours_stay_and_two_sets_of_shares_always_overlap(devices):
    for dropouts in range((devices - 1) // 2):
        around, enough = degree(devices, dropouts), threshold(devices, dropouts)
        assert around - dropouts >= enough
        assert 2 * enough > around


def test_work_does_not_grow_with_the_fleet():
    assert degree(1000, 9) == degree(10_000, 9) == 20


def test_the_order_is_nobodys_alone():
    keys = {f"d{n}": bytes([n]) * 32 for n in range(40)}
    assert circle(keys, b"one", 20) != circle(keys, b"two", 20)
    assert circle(keys, b"one", 20) == circle(dict(reversed(keys.items())), b"one", 20)


@pytest.mark.parametrize(("devices", "dropouts"), [(3, 1), (5, 2), (100, 50), (4, -1)])
def test_more_than_can_be_lost_is_refused(devices, dropouts):
    with pytest.raises(UsageError, match="cannot lose"):
        degree(devices, dropouts)
