"""A small task on which two contenders have run with two seeds."""

import pytest

from simulators.cross.cross import FLEET, PAPERS, Task, finished_runs, run
from simulators.cross.cross_page import AllTasks
from simulators.papers.cell import Places

OWN = {"prototype": "prototype", "head": "head_own_classes"}


@pytest.fixture(scope="session")
def ran(small_lab, tmp_path_factory):
    """The task, where its runs lie, and all that is known of them."""
    task = Task("small", "Digits", small_lab(rounds=3), {"fedproto": ("lam=2",)}, OWN)
    folder = tmp_path_factory.mktemp("cross")
    places = Places(folder / "runs", folder / "records")
    contenders = (FLEET, PAPERS[0])
    for contender in contenders:
        for seed in (0, 1):
            run(task, contender, seed, places, 1)
    runs = {("small", c.name): finished_runs(task, c, 3, places) for c in contenders}
    return task, places, AllTasks([task], runs)
