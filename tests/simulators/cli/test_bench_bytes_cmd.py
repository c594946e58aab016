"""`protofleet bench bytes`: a run that fails stops no other and is named at the end."""

from click.testing import CliRunner

from protofleet.errors import FleetError, UsageError
from simulators.cli.bench_bytes_cmd import against_bytes


def call(*words):
    return CliRunner().invoke(against_bytes, words, env={"PROTOFLEET_DATA": None})


def test_every_run_is_tried_and_the_failed_ones_are_named_at_the_end(tmp_path):
    run = call("--only", "local", "--only", "fedproto", "--out", str(tmp_path))
    assert isinstance(run.exception, FleetError)
    for name in ("fashion local", "cifar10 local", "fashion fedproto", "cifar10 fedproto"):
        assert f"\n{name}: " in run.stderr
        assert name in str(run.exception)
    assert "PROTOFLEET_DATA" in run.stderr


def test_a_method_that_does_not_exist_is_refused_before_anything_runs(tmp_path):
    run = call("--only", "local", "--only", "fedprot", "--out", str(tmp_path))
    assert isinstance(run.exception, UsageError)
    assert not run.stderr
