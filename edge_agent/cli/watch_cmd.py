"""`edge-agent watch`: cameras, as they are."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_agent.cli.common import DEFAULT
from edge_agent.cli.infer_cmd import (
    broker_options,
    channel_option,
    fetch_option,
    fleet_option,
    follow_option,
)
from edge_agent.config import Config, load, with_id
from protofleet.cli.options import SettingFlags
from protofleet.errors import UsageError

if TYPE_CHECKING:
    from edge_agent.cameras.saying.answers import SceneAnswer
    from edge_agent.cli.infer_cmd import Reach

FLAGS = SettingFlags(
    Config,
    (
        "camera.bundle",
        "camera.motion",
        "camera.smooth",
        "camera.hold",
        "camera.mqtt",
        "camera.mqtt_credentials",
        "camera.mqtt_ca",
        "camera.topic",
        "camera.webhook",
        "camera.webhook_token",
    ),
)
_SECONDS = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|)")
_UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0}


def seconds_of(text: str) -> float:
    """`0.5s`, `500ms`, `2m`, or a number of seconds."""
    match = _SECONDS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--every: {text!r} is no time", "write it like 0.5s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


@click.command()
@click.argument("sources", nargs=-1, metavar="[NAME=]ADDRESS...")
@click.option("--every", metavar="TIME", help="A look at each camera this often (0.5s).")
@click.option("--fps", type=click.FloatRange(min=0, min_open=True), help="Or so many a second.")
@click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="NAME=L,T,R,B",
    help="Look at this part by itself (shares: left, top, right, bottom); may be given again.",
)
@FLAGS
@click.option(
    "--retain/--no-retain", default=None, help="Whether that broker keeps the last answer (yes)."
)
@click.option("--frames", is_flag=True, help="Say each look, too, as it is and unsmoothed.")
@follow_option
@channel_option
@fetch_option
@fleet_option
@broker_options
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=None,
    help="Settings, of which [camera] is used; ./agent.toml if it is there.",
)
def watch(
    sources: tuple[str, ...],
    every: str | None,
    fps: float | None,
    regions: tuple[str, ...],
    retain: bool | None,
    frames: bool,
    follow: str | None,
    channel: str,
    fetch: bool,
    fleet: str | None,
    file: Path | None,
    reach: Reach,
    **flags: Any,
) -> None:
    """Say what cameras see: a line of JSON for each answer that held, until stopped.

    \b
    edge-agent watch --bundle B rtsp://10.0.0.7/stream
    edge-agent watch --bundle B door=rtsp://10.0.0.7/stream yard=http://10.0.0.8/mjpeg
    edge-agent watch --bundle B /dev/video0 --region bin=0.1,0.2,0.5,0.9
    edge-agent watch --bundle B incoming/ --webhook http://home.local:8123/api/webhook/ID
    edge-agent watch --bundle B /dev/video0 --mqtt mqtt://home.local --topic home/cameras

    An ADDRESS is rtsp://, http:// (MJPEG), /dev/videoN, or a folder that pictures appear in.
    Without one, the cameras of [camera] in agent.toml.
    """
    # Before all that imports numpy: it keeps that to one thread.
    from edge_agent.inference.classifier import Classifier  # noqa: I001
    from edge_agent.cameras.assembly import WatchPlan, senders_of, watching
    from protofleet.util.logs import Log

    if every is not None and fps is not None:
        raise UsageError("one of --every and --fps is due")
    layer = FLAGS.layer(flags)
    ours: dict[str, Any] = {
        "sources": list(sources) or None,
        "regions": list(regions) or None,
        "every": seconds_of(every) if every is not None else None if fps is None else 1 / fps,
        "retain": retain,
    }
    layer.setdefault("camera", {}).update({k: v for k, v in ours.items() if v is not None})
    if file is None and DEFAULT.exists():
        file = DEFAULT
    config = with_id(load(file, os.environ, layer))
    bundle = Path(config.camera.bundle or config.data_dir / "fleet.pfb")
    log = Log(sys.stderr, config.agent.log_format)
    with ExitStack() as stack:
        classifier = Classifier(bundle)
        if follow:
            from edge_agent.updates.listener import Channel, following

            source = Channel(reach(follow), channel, fleet)
            stack.enter_context(following(classifier, bundle, source, wait=False, fetch=fetch))
        senders = senders_of(config.camera, os.environ, log)
        plan = WatchPlan(config.camera, bundle, say, senders, each_frame=frames)
        watcher = stack.enter_context(watching(plan, classifier, log))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: watcher.stop())
        with suppress(BrokenPipeError):  # whoever read our lines has left
            watcher.run()


def say(answer: SceneAnswer) -> None:
    """A line, for whoever reads at the other end of a pipe."""
    click.echo(answer.line())
    sys.stdout.flush()
