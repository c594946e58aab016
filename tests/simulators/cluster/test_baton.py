"""Threads take turns: none runs while another does, and all hear that it is over."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from simulators.cluster.baton import Baton, Stopped


def test_only_one_goes_on_at_a_time():
    baton, busy, most = Baton(), 0, 0

    def work(_):
        nonlocal busy, most
        with baton.held():
            for _ in range(200):
                busy += 1
                most = max(most, busy)
                busy -= 1
                with baton.away():
                    pass

    with ThreadPoolExecutor(4) as pool, baton.away():
        list(pool.map(work, range(4)))
    assert (busy, most) == (0, 1)


def test_who_takes_it_up_when_all_is_over_is_stopped():
    baton = Baton()
    baton.over = True
    with ThreadPoolExecutor(1) as pool, baton.away(), pytest.raises(Stopped):
        pool.submit(lambda: baton.held().__enter__()).result()
