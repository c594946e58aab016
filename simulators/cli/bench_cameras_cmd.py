"""`protofleet bench cameras`: `edge-agent watch` on streams for hours' worth of frames."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click

from protofleet.errors import UsageError
from simulators.cli.common import json_option, progress


@click.command()
@click.option("--source", "sources", multiple=True, type=click.Choice(["mjpeg", "rtsp"]))
@click.option("--hours", default=2.0, show_default=True, help="Worth of a camera's frames.")
@click.option("--rate", default=25.0, show_default=True, help="Frames a second of that camera.")
@click.option("--fps", default=200.0, show_default=True, help="Of RTSP; MJPEG is as fast as it is.")
@click.option("--codec", type=click.Choice(["h264", "mjpeg"]), default="h264", show_default=True)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Photographs <domain>/<class>/*, for what is seen; by default made up.",
)
@click.option(
    "--extractor",
    type=click.Path(exists=True, path_type=Path),
    help="A bundle of `protofleet extractor`; by default random filters.",
)
@json_option
def cameras(
    sources: tuple[str, ...],
    hours: float,
    rate: float,
    fps: float,
    codec: str,
    data: Path | None,
    extractor: Path | None,
    as_json: bool,
) -> None:
    """How old is what is answered, is memory flat, and what does a cut do?

    Needs ffmpeg (MJPEG) and GStreamer's RTSP server with x264 (RTSP), as `make system` installs
    them.

    \b
    protofleet bench cameras --hours 2
    protofleet extractor lite0 --fleet f --out lite0.pfb
    protofleet bench cameras --source rtsp --data photos/ --extractor lite0.pfb
    """
    from tempfile import TemporaryDirectory

    from simulators.streams import camerabench, servers, teaching
    from simulators.streams.slides import painted

    rows: dict[str, Any] = {}
    chosen = sources or ("mjpeg", "rtsp")
    for source in chosen:
        have = servers.has_ffmpeg() if source == "mjpeg" else servers.has_gstreamer()
        if not have:
            raise UsageError(f"{source} cannot be served here", "make system")
    with TemporaryDirectory(prefix="protofleet-cameras-") as name:
        folder = Path(name)
        bundle = _bundle(extractor, folder)
        progress("teaching")
        taught = (
            teaching.of_slides(bundle, painted(10))
            if data is None
            else teaching.of_photographs(bundle, data)
        )
        for source in chosen:
            server = (
                servers.MjpegServer(taught.slides, fps=None)
                if source == "mjpeg"
                else servers.RtspServer(taught.slides, folder, fps, codec)
            )
            frames = round(hours * 3600 * rate)
            rows[source] = camerabench.bench(server, bundle, frames, folder, progress)
            (folder / "log").unlink()
    click.echo("", err=True)
    click.echo(json.dumps(rows, indent=1) if as_json else table(rows))


def _bundle(extractor: Path | None, folder: Path) -> Path:
    """A copy, since classes are left beside it."""
    bundle = folder / "bench.pfb"
    if extractor is not None and extractor.is_dir():
        raise UsageError(f"{extractor}: a .pfb file is due")
    if extractor is not None:
        shutil.copyfile(extractor, bundle)
        return bundle
    from export.extractor import extractor as built_of
    from export.feeding import SourceTerms
    from export.writer import Wanted, export_extractor, write

    built = built_of(SourceTerms("random", size=(32, 32)))
    write(export_extractor(built, Wanted("fp32", smallest=True), "f", None), bundle)
    return bundle


def table(rows: dict[str, Any]) -> str:
    """What came of it, in lines."""
    lines = []
    for source, row in rows.items():
        age, own, other = row["age_s"], row["watch_mb"], row["decoder_mb"]
        lines += [
            f"{source}: {row['frames']:,} frames in {row['seconds']:,.0f} s, "
            f"{row['kinds'].get('frame', 0):,} looked at, "
            f"{row['kinds'].get('answer', 0):,} answers, {row['cpu_s']:,.0f} s of processor time",
            f"  age when read      {age}, older than 1 s: {row['older_than_1_s']}",
            f"  age as it says     {row['own_age_s']}",
            f"  memory, MB         {own}, its decoder {other}",
            *(
                f"  cut: said {cut['lost_said']} times, looking again {cut['back_after_s']} s "
                "after the server was back"
                for cut in row["cuts"]
            ),
        ]
    return "\n".join(lines)
