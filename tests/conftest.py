"""What several tests use: small laboratories on data that ships with scikit-learn."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, settings

from protofleet.contract import Training
from simulators.run.config import LabConfig, Run
from simulators.run.partitions import PartitionOptions
from tests.exchanging import SETTINGS

torch.set_num_threads(1)  # tests run side by side: more threads would only wait for each other
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
# Some hundred processes start here. Where the environment says that Python is to leave no compiled
# modules, each of them compiles all of ours anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """What is to pass everywhere must not pass by being left out."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"


@pytest.fixture(scope="session")
def small_lab():
    """A configuration of a few seconds; keyword arguments change its run."""

    def make(
        method: str = "fedproto", settings: tuple[str, ...] = (), numerics=None, **run
    ) -> LabConfig:
        given = {
            "dataset": "digits",
            "agents": 5,
            "partition": "dirichlet",
            "rounds": 3,
            "seed": 4,
        } | run
        config = LabConfig(
            Run(method=method, **given),
            PartitionOptions(alpha=0.5),
            Training(lr=0.03),
            settings=settings or SETTINGS.get(method, ()),
        )
        return replace(config, numerics=numerics) if numerics else config

    return make


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server in a folder of its own; `database()` is the address of a new one."""
    from simulators.databases import server

    if not server.startable():
        pytest.skip("PostgreSQL's server, or psycopg, is not installed")
    with server.running_server() as running:
        yield running
