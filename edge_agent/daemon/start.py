"""From settings to a running daemon: everything that can be wrong is found here, and said in one
line.
"""

from __future__ import annotations

import random
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from edge_agent.config import ALBUM, Config, need_source
from edge_agent.daemon import outbound
from edge_agent.daemon.loop import Daemon, DaemonDeps
from edge_agent.protocol.retry import RetryRules
from edge_agent.recent.queue import RecentBounds, agree
from edge_agent.store import Store, lock
from edge_agent.worker.ipc import DataSurvey, Job, SurveyData, TaskFailed, WorkerEnded
from edge_agent.worker.supervisor import WorkerSupervisor
from protofleet.errors import DataError, FleetError, SettingError
from protofleet.member import membership
from protofleet.member.sealed_link import sealed_link
from protofleet.mqtt.address import Address
from protofleet.mqtt.link.link import LinkSettings
from protofleet.mqtt.topics import Topics, check_name
from protofleet.trust.sequence import DAEMON
from protofleet.util.extras import check_installed
from protofleet.util.files import exposed, own_folder
from protofleet.util.logs import Log
from protofleet.util.stopping import StopRequest
from protofleet.util.systemd import Notifier


def check(config: Config, environ: Mapping[str, str]) -> Address:
    """Everything that can be known to be wrong without a broker and without reading the data."""
    need_source(config)
    check_name("device", config.id)
    check_name("fleet", config.fleet.name)
    _check_signatures(config)
    if config.camera.sources:
        from edge_agent.cameras import origins, regions

        cameras = origins.cameras_of(config.camera)
        regions.parse(config.camera.regions, [camera.name for camera in cameras])
    return config.broker.address(environ)


def _check_signatures(config: Config) -> None:
    """Whether what is wished of signatures can be had: a member does not go back behind them."""
    member, wish = membership.of_folder(config.data_dir), config.trust.signatures
    if member is None and wish == "required":
        raise SettingError(
            "trust.signatures: required, but this device joined no fleet", "edge-agent join TOKEN"
        )
    if member is not None and wish == "off":
        raise SettingError(
            f"trust.signatures: off, but this device joined {member.fleet}, and a member takes"
            " nothing unsigned",
            "another data_dir is another device",
        )


def run(config: Config, environ: Mapping[str, str], *, retry: bool) -> None:
    """Be this device until SIGTERM or an interrupt."""
    log = Log(sys.stderr, config.agent.log_format)
    where = check(config, environ)
    directory = lock(config.data_dir)
    if Path(config.data.source) == config.data_dir / ALBUM:
        own_folder(config.album)  # a camera may begin without a photo
    agree(config.data_dir / "fleet.pfb", RecentBounds.of(config.recent))
    for words in filter(None, (exposed(config.data_dir), where.in_the_open)):
        log.warning(words)
    store = Store(config.data_dir)
    try:
        store.check()
        # Before anything is ordered: a training process that an earlier life left behind must not
        # commit from here on.
        boot = secrets.token_hex(8)
        store.take_over(boot)
        data = environ.get("PROTOFLEET_DATA")
        job = Job(
            agent=config.id,
            folder=config.data_dir,
            boot=boot,
            data=config.data,
            data_dir=Path(data) if data else None,
            limits=config.limits,
            export_every=config.agent.export_every,
            export_to=Path(config.agent.export_to),
        )
        topics = Topics(config.fleet.name)
        rng = random.Random(boot)
        # A clean start would drop what was published for this device while it was away.
        settings = LinkSettings(will=outbound.will(topics, config.id, boot))
        member = membership.of_folder(config.data_dir)
        link = sealed_link(where, config.id, settings, (member, DAEMON), log, rng)
        supervisor = WorkerSupervisor(job, link.wake)
        notifier = Notifier(environ)
        stop = (
            StopRequest()
        )  # from here on a signal ends what it meets in good order, the survey too
        survey = first_survey(supervisor, link.poll, notifier, stop)
        if survey is None:
            return
        rules = RetryRules(config.id, config.limits.evaluate, spread=rng.uniform(0.8, 1.2))
        deps = DaemonDeps(
            config, link, store, supervisor, log, notifier, boot, retry, member=member
        )
        daemon = Daemon(deps, rules, survey)
        stop.then(daemon.stop)
        with page_beside(config, log):
            daemon.run()
    finally:
        store.close()
        directory.close()


def page_beside(config: Config, log: Log) -> AbstractContextManager[object]:
    """The owner's page in a process of its own, where there is to be one."""
    if not config.page.listen:
        return nullcontext()
    check_installed("starlette", "page", "pages")
    from protofleet.pages.child import Child

    words = [sys.executable, "-m", "edge_agent", "serve", "--beside"]
    words += ["--id", config.id, "--data-dir", str(config.data_dir), "--data", config.data.source]
    # By flags and not by the daemon's file: its settings may have come from the environment.
    for section in ("page", "recent"):
        for name, value in vars(getattr(config, section)).items():
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            words += ["--set", f"{section}.{name}={text}"] if text else []
    return Child(words, log)


def first_survey(
    supervisor: WorkerSupervisor,
    wait: Callable[[float], object],
    notifier: Notifier,
    stop: StopRequest,
) -> DataSurvey | None:
    """What there is to learn from, before anybody is told; None if the wait was ended."""
    supervisor.order(SurveyData())
    try:
        while not stop.requested:
            wait(1.0)
            # Reading a large folder may take longer than systemd's start timeout: a further half
            # minute, as often as this turns.
            notifier.say("EXTEND_TIMEOUT_USEC=30000000")
            for answer in supervisor.answers():
                match answer:
                    case DataSurvey():
                        return answer
                    case TaskFailed(_, words, code):
                        raise _as_error(words, code)
                    case WorkerEnded(words):
                        raise DataError(f"the samples could not be read: {words}")
    finally:
        supervisor.dismiss()  # a daemon that waits for its first round has no process beside it
    return None


def _as_error(words: str, code: str) -> FleetError:
    """What was wrong in the training process, as if it had been found here."""
    error = DataError(words)
    error.code = code
    return error
