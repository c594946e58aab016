"""`protofleet bench truth` fails where a fleet ends in another state than the laboratory."""

import pytest
from click.testing import CliRunner

from protofleet import registry
from protofleet.errors import FleetError
from simulators.cli.bench_truth_cmd import truth
from simulators.live import truth as measuring
from simulators.live.truth import Compared


@pytest.fixture
def call(monkeypatch):
    """The command, where the fleets of these methods end elsewhere."""

    def call(differing, *words):
        monkeypatch.setattr(
            measuring,
            "compare_engines",
            lambda name, agents, rounds, masks: Compared(
                "a" * 64,
                ("b" if name in differing else "a") * 64,
                0.5,
                2.0,
                "a" * 64 if masks.secure_sum else "",
            ),
        )
        return CliRunner().invoke(truth, words)

    return call


def test_every_method_is_held_to_the_laboratory(call):
    run = call(())
    assert run.exit_code == 0
    rows = [line.split()[:2] for line in run.stdout.splitlines()]
    assert rows == [[name, "same"] for name in registry.names()]


def test_one_that_differs_fails_the_command_after_all_were_tried(call):
    run = call(("fedic",), "--only", "fedic", "--only", "local")
    assert [line.split()[1] for line in run.stdout.splitlines()] == ["DIFFERS", "same"]
    assert isinstance(run.exception, FleetError)


def test_masked_sums_are_of_methods_that_can_have_them_with_all_three_hashes(call):
    run = call((), "--secure-sum")
    assert run.exit_code == 0
    rows = [line.split() for line in run.stdout.splitlines()]
    assert "fedavg" in {row[0] for row in rows}
    assert not {"fedmps", "gfpl"} & {row[0] for row in rows}
    assert all(row[1:5] == ["same", *["a" * 16] * 3] for row in rows)
