"""A connection to a cluster: what is said where there is none, and what is not heard."""

import sys
from io import StringIO
from threading import Thread

import pytest

from protofleet.errors import UsageError
from simulators.cluster import head
from simulators.cluster.baton import Baton
from simulators.cluster.head import ClusterHead, ClusterLost, connected


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'protofleet\[ray\]'"), connected("auto"):
        pass


def test_where_nobody_listens_it_is_said_at_once(nobody_listens):
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="no cluster answers"), connected(nobody_listens):
        pass
    with pytest.raises(UsageError, match="on a machine of the cluster"), connected("ray://x:1"):
        pass


def test_what_ray_prints_in_threads_of_its_own_is_not_heard():
    heard = StringIO()
    unheard = head._Unheard(heard)
    threads = [Thread(target=unheard.write, args=(name,), name=name) for name in ("ray_x", "run_0")]
    for thread in threads:
        thread.start()
        thread.join()
    unheard.write("ours")
    assert heard.getvalue() == "run_0ours"


def silent(nobody_listens):
    silent = object.__new__(ClusterHead)
    silent.baton = Baton()
    silent.parts = {nobody_listens: "the cluster's head is gone"}
    silent._heard, silent._looked = {nobody_listens: 0.0}, 0.0
    return silent


def test_a_head_that_is_silent_for_long_is_gone(nobody_listens, monkeypatch):
    monkeypatch.setattr(head.time, "monotonic", lambda: 9.0)
    silent(nobody_listens).look()
    monkeypatch.setattr(head.time, "monotonic", lambda: 11.0)
    with pytest.raises(ClusterLost, match="the cluster's head is gone; --resume"):
        silent(nobody_listens).look()


def test_of_the_pages_that_ray_says_the_line_that_says_it():
    line = "ModuleNotFoundError: No module named 'torch'"
    pages = f"The actor died\n\tclass_name: ClusterSeat\n{line}\n\n"
    assert head._reason(RuntimeError(pages)) == line
    assert head._reason(RuntimeError("it died\nactor_id: 7")) == "it died"
    assert head._reason(ValueError()) == "ValueError"
