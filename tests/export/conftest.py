"""What several tests of the exporter start from."""

from functools import cache

import pytest

from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare


@pytest.fixture(scope="session")
def lab_run(small_lab, tmp_path_factory):
    """A short run's directory, as `protofleet simulate --out` leaves it, and how it ended."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    outcome = run_in(prepare(small_lab(agents=2, rounds=2)), LabOptions(), lambda row: None, folder)
    return folder, outcome


@pytest.fixture(scope="session", autouse=True)
def operators():
    """Torch's exporter compiles what it knows of operators at every call, which is half of what a
    small network takes. Here it does so once.
    """
    # Not at the head: it takes a second to load, also where nothing is exported.
    from torch.onnx._internal.exporter import _registration

    read = _registration.ONNXRegistry.from_torchlib
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_registration.ONNXRegistry, "from_torchlib", staticmethod(cache(read)))
        yield
