"""What several tests of the exporter start from."""

import pytest

from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare


@pytest.fixture(scope="session")
def lab_run(small_lab, tmp_path_factory):
    """A short run's directory, as `protofleet simulate --out` leaves it, and how it ended."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    outcome = run_in(prepare(small_lab(agents=2, rounds=2)), LabOptions(), lambda row: None, folder)
    return folder, outcome
