from simulators.speed.masking import measured


def test_a_small_group_s_costs_are_counted_and_its_total_is_the_plain_one():
    costs = measured(devices=5, width=24, dropouts=1, samples=2**10, norm=16.0)
    assert costs.equal
    assert (costs.neighbours, costs.lost) == (4, 1)
    # Two bytes a number in half precision: ten means, and the triangle of a covariance.
    assert costs.half == 2 * (10 * 24 + 24 * 25 // 2)
    assert 1 < costs.ratio == costs.octets / costs.half
    assert 0 < costs.cpu <= costs.cpu_most
