"""What is wrong is said before anything begins; a signal is heard from the first moment on."""

import signal
import subprocess
import sys

import pytest

from edge_agent.config import AgentSection, Config, DataSection, FleetSection, load
from edge_agent.daemon import start
from edge_agent.daemon.start import first_survey
from edge_agent.worker.ipc import DataSurvey, SurveyData, TaskFailed, WorkerEnded
from protofleet.errors import DataError, FleetError, SettingError, UsageError
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from protofleet.util.stopping import StopRequest
from protofleet.util.systemd import Notifier
from protofleet.wire.codes import Scope
from tests.edge_agent.fakes import FakeSupervisor

SURVEY = DataSurvey(("x",), 3)


@pytest.fixture
def stop():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield StopRequest()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def surveyed(stop, answers):
    """A supervisor that answers at the second look, and what `first_survey` makes of it."""
    supervisor, looks = FakeSupervisor(), []

    def wait(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            supervisor.ready = answers
        if len(looks) == 5:
            signal.raise_signal(signal.SIGTERM)

    try:
        return first_survey(supervisor, wait, Notifier({}), stop)
    finally:
        assert supervisor.orders == [SurveyData()]
        assert supervisor.dismissed == 1  # whatever came of it


def test_the_samples_are_counted_before_anybody_is_told(stop):
    assert surveyed(stop, [SURVEY]) == SURVEY


@pytest.mark.parametrize(
    ("answer", "words", "code"),
    [
        (
            TaskFailed(SurveyData(), "no such folder", "bad-data", Scope.DEVICE),
            "no such",
            "bad-data",
        ),
        (WorkerEnded("killed"), "the samples could not be read: killed", DataError.code),
    ],
)
def test_samples_that_cannot_be_read_are_an_error_of_this_process(stop, answer, words, code):
    with pytest.raises(FleetError, match=words) as failure:
        surveyed(stop, [answer])
    assert failure.value.code == code


def test_a_signal_ends_the_first_look(stop):
    assert surveyed(stop, []) is None


def test_a_signal_that_came_before_the_daemon_was_there_stops_it_at_once(stop):
    stops = []
    signal.raise_signal(signal.SIGINT)
    stop.then(lambda: stops.append("at once"))
    assert stops == ["at once"]
    signal.raise_signal(signal.SIGTERM)
    assert len(stops) == 2


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (Config(), SettingError, "data.source is not set"),
        (Config(AgentSection("a/b"), data=DataSection("digits")), UsageError, "device name 'a/b'"),
        (
            Config(AgentSection("a"), fleet=FleetSection("#"), data=DataSection("digits")),
            UsageError,
            "fleet name '#'",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_without_a_broker(config, error, words):
    with pytest.raises(error, match=words):
        start.check(config, {})


def test_the_idle_daemon_loads_no_tensors_no_decoders_of_images_and_no_learning_library():
    code = "import edge_agent.daemon.start, sys; print(*{m.partition('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = "torch torchvision sklearn scipy PIL onnxruntime onnx matplotlib rich"
    assert not set(run.stdout.split()) & set(heavy.split())


@pytest.mark.parametrize(
    ("wish", "member", "words"),
    [
        ("required", False, "joined no fleet"),
        ("off", True, "a member takes nothing unsigned"),
    ],
)
def test_signatures_are_not_wished_away(tmp_path, wish, member, words):
    if member:
        folder = tmp_path / membership.FOLDER
        membership.write(FleetMember("fleet", "camera-07", "mqtt://b", folder))
    flags = {"agent": {"data_dir": str(tmp_path)}, "data": {"source": "digits"}}
    config = load(None, {}, flags | {"trust": {"signatures": wish}})
    with pytest.raises(SettingError, match=words):
        start.check(config, {})
