"""`protofleet bench`: figures beside those of others, each a command that prints a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from protofleet.errors import FleetError, UsageError
from simulators.cli.common import json_option, workers_option
from simulators.cli.device_cmd import device


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Measure; every table compares contenders side by side in one run."""


@bench.command()
@click.option("--rounds", default=12, show_default=True, help="Rounds a contender.")
@click.option(
    "--only",
    type=click.Choice(["cifar", "fedmps", "fashion", "workers"]),
    help="One of the four tables.",
)
@json_option
def lab(rounds: int, only: str | None, as_json: bool) -> None:
    """A round of ours beside reference loops (needs CIFAR-10 and Fashion-MNIST in
    PROTOFLEET_DATA).
    """
    from simulators.speed import lab as cells

    tables = {
        "cifar": (
            "CIFAR-10 few-shot, LeNet, batch 8, one thread",
            cells.bench_cifar,
            "in-memory loop",
        ),
        "fedmps": (
            "FedMPS, CIFAR-10 few-shot, LeNet, batch 8, one thread",
            cells.bench_fedmps,
            "in-memory loop",
        ),
        "fashion": (
            "Fashion-MNIST 20 × 600, 4-layer CNN, batch 32, one thread",
            cells.bench_fashion,
            "DataLoader way",
        ),
        "workers": (
            "the same, channels-last and bf16, one worker and two",
            cells.bench_workers,
            "ours, 1 worker",
        ),
    }
    found = {}
    for name, (title, run, base) in tables.items():
        if only in (None, name):
            rows = run(rounds, lambda words: click.echo(f"\r{words} ", nl=False, err=True))
            click.echo("", err=True)
            found[name] = [asdict(row) for row in rows]
            if not as_json:
                click.echo(f"{title}\n{_ratios(rows, base)}\n")
    if as_json:
        click.echo(json.dumps(found, indent=1))


def _ratios(rows: Sequence, base: str) -> str:  # type: ignore[type-arg]
    reference = next(row.seconds for row in rows if row.name == base)
    lines = [f"{'':<36}{'s/round':>9}{'ratio':>8}{'times as fast':>15}{'accuracy':>10}"]
    for row in rows:
        accuracy = "" if row.accuracy is None else f"{100 * row.accuracy:.1f} %"
        ratio = row.seconds / reference
        lines.append(
            f"{row.name:<36}{row.seconds:>9.3f}{ratio:>8.2f}{1 / ratio:>15.2f}{accuracy:>10}"
        )
    return "\n".join([*lines, f"ratio: seconds over those of {base}"])


@bench.command()
@click.option(
    "--repeats", default=200, show_default=True, help="Interleaved blocks; the fastest counts."
)
@json_option
def codec(repeats: int, as_json: bool) -> None:
    """The wire format beside protobuf, msgpack and JSON, on a 10-class × 512 half-precision
    upload.
    """
    from simulators.speed.codec import bench_codec

    rows = bench_codec(repeats)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    click.echo("A 10-class × 512 half-precision upload with its envelope: 10,240 bytes of numbers")
    click.echo(f"{'':<14}{'bytes':>8}{'over raw':>10}{'encode µs':>11}{'decode µs':>11}")
    for row in rows:
        times = f"{row.encode_us:>11.1f}{row.decode_us:>11.1f}"
        click.echo(f"{row.name:<14}{row.bytes:>8,}{row.over_raw:>10,}{times}")


@bench.command()
@click.option("--only", multiple=True, help="A cell by name; all by default.")
@click.option("--page-only", is_flag=True, help="Run nothing; the page of what is there.")
@click.option(
    "--seeds",
    default=3,
    show_default=True,
    help="Seeds 0, 1, … of every cell; some take one more or less.",
)
@click.option(
    "--out",
    default="runs/papers",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the page here, and its pictures beside it.",
)
@workers_option
def papers(
    only: tuple[str, ...], page_only: bool, seeds: int, out: Path, target: Path | None, workers: int
) -> None:
    """The papers' figures beside ours (needs the real data in PROTOFLEET_DATA); resumable run by
    run.

    \b
    protofleet bench papers --only fedproto-cifar10 --seeds 3
    protofleet bench papers --page-only --write docs/results.md
    """
    from simulators.papers.cell import run_cell
    from simulators.papers.page import page
    from simulators.papers.readings import ORDER, SECTIONS

    names = [cell.name for cell in ORDER]
    for name in only:
        if name not in names:
            raise UsageError(f"no cell is called {name!r}", f"there are: {', '.join(names)}")
    wanted = [cell for cell in ORDER if cell.name in only or not (only or page_only)]
    failed = _each({cell.name: partial(run_cell, cell, seeds, out, workers) for cell in wanted})
    if target is None:
        click.echo(page(SECTIONS, seeds, out, None))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(SECTIONS, seeds, out, target.parent))
        click.echo(f"written: {target}")
    _said(failed)


@bench.command()
@click.option(
    "--task", "tasks", multiple=True, help="A task by name, or late or rare; all by default."
)
@click.option("--only", multiple=True, help="A contender by name; all by default.")
@click.option("--seeds", default=5, show_default=True, help="Seeds 0, 1, … of every run.")
@click.option("--page-only", is_flag=True, help="Run nothing; the tables of what is there.")
@click.option(
    "--out",
    default="runs/cross",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--write",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the tables into this page, between its marks.",
)
@workers_option
def cross(
    tasks: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int,
    page_only: bool,
    out: Path,
    target: Path | None,
    workers: int,
) -> None:
    """`fleet` against the papers' methods, seed by seed (needs the real data in PROTOFLEET_DATA);
    resumable.

    \b
    protofleet bench cross --only fleet --only fedproto
    protofleet bench cross --page-only --write docs/fleet-method.md
    """
    from simulators.papers import cross as bench
    from simulators.papers import cross_page, newcomers

    known = {*(task.name for task in bench.TASKS), *(case.name for case in newcomers.CASES)}
    names = {each.name for each in bench.CONTENDERS}
    for given, there, what in ((tasks, known, "task"), (only, names, "contender")):
        for name in given:
            if name not in there:
                raise UsageError(
                    f"no {what} is called {name!r}", f"there are: {', '.join(sorted(there))}"
                )
    runs: dict[str, Callable[[], object]] = {}
    if not page_only:
        for t, c, s in bench.plan(seeds, tasks, only):
            runs[f"{t.name} {c.name} {s}"] = partial(bench.run, t, c, s, out, workers)
        for seed in range(seeds):
            for case in newcomers.CASES:
                for c in newcomers.CONTENDERS:
                    if (not tasks or case.name in tasks) and (not only or c.name in only):
                        runs[f"{case.name} {c.name} {seed}"] = partial(
                            newcomers.run, case, c, seed, out
                        )
    failed = _each(runs)
    if target is None:
        click.echo(cross_page.page(seeds, out, None))
    else:
        before, mark, rest = target.read_text().partition("<!-- figures -->\n")
        after = rest.partition("<!-- end of figures -->")[2]
        if not mark or not after:
            raise UsageError(
                f"{target}: no marks to put the figures between",
                "<!-- figures --> and <!-- end of figures -->",
            )
        figures = cross_page.page(seeds, out, target.parent)
        target.write_text(f"{before}{mark}\n{figures}\n<!-- end of figures -->{after}")
        click.echo(f"written: {target}")
    _said(failed)


@bench.command(name="bytes")
@click.option("--only", multiple=True, help="A method by name; all by default.")
@click.option(
    "--out",
    default="runs/bytes",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where runs are kept.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw the curves here."
)
@workers_option
def against_bytes(only: tuple[str, ...], out: Path, picture: Path | None, workers: int) -> None:
    """Accuracy against bytes for every method (needs Fashion-MNIST and CIFAR-10 in
    PROTOFLEET_DATA); resumable.

    \b
    protofleet bench bytes --picture docs/images/bytes.png
    """
    from protofleet import registry
    from simulators.papers import traffic

    for name in only:
        registry.load(name)
    methods = only or registry.names()
    pairs = [(scene, method) for scene in traffic.SCENES for method in methods]
    runs = {
        f"{scene.name} {method}": partial(scene.run, method, out, workers)
        for scene, method in pairs
    }
    failed = _each(runs)
    for scene in traffic.SCENES:
        click.echo(traffic.render(scene, traffic.curves(scene, out)) + "\n")
    if picture is not None:
        traffic.draw(out, picture)
        click.echo(f"drawn: {picture}")
    _said(failed)


def _each(runs: Mapping[str, Callable[[], object]]) -> list[str]:
    """One after the other; a run that fails (as one that diverges) is told and stops no other."""
    failed = []
    for name, run in runs.items():
        try:
            run()
        except FleetError as error:
            click.echo(f"\n{name}: {error}", err=True)
            failed.append(name)
    return failed


def _said(failed: Sequence[str]) -> None:
    if failed:
        raise FleetError(f"these runs failed, for the reasons above: {', '.join(failed)}")


@bench.command()
@click.option(
    "--repeats", default=3, show_default=True, help="Interleaved blocks; the fastest counts."
)
@json_option
def align(repeats: int, as_json: bool) -> None:
    """Matrix products on the server beside the formulas as written: ProtoNorm's alignment, FedPAC's
    D.
    """
    from simulators.speed.align import bench_align

    rows = bench_align(repeats)
    if as_json:
        click.echo(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1))
        return
    click.echo("One thread, float64; milliseconds a step (D: for all devices)")
    click.echo(f"{'':<36}{'as written':>12}{'ours':>10}{'times as fast':>15}{'difference':>12}")
    for row in rows:
        times = f"{row.written_ms:>12,.2f}{row.ours_ms:>10,.3f}{row.ratio:>15,.1f}{row.difference:>12.1e}"
        click.echo(f"{row.what:<36}{times}  {row.note}".rstrip())


@bench.command()
@click.option("--uploads", default=5000, show_default=True, help="Uploads of 20 KB a run.")
@click.option(
    "--runs",
    default=5,
    show_default=True,
    help="Runs of each receiver, in turn; medians are shown.",
)
@json_option
def ingest(uploads: int, runs: int, as_json: bool) -> None:
    """Uploads through mosquitto: a bare subscriber that drops them, and the coordinator that keeps
    them.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.ingest import bench_ingest, middle

    with TemporaryDirectory(prefix="protofleet-") as folder:
        found = bench_ingest(uploads, runs, Path(folder), lambda words: click.echo(words, err=True))
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
        return
    click.echo(
        f"{uploads:,} uploads of 20 KB, QoS 1, 20 publishers, mosquitto on loopback; medians of {runs} runs"
    )
    click.echo(
        f"{'':<22}{'uploads/s':>11}{'CPU µs each':>13}{'lost':>6}{'RSS MB':>8}{'p50 ms':>9}{'p99 ms':>9}"
    )
    rows = middle(found)
    for row in rows:
        waits = "" if row.p50_ms is None else f"{row.p50_ms:>9.1f}{row.p99_ms:>9.1f}"
        click.echo(
            f"{row.name:<22}{row.per_second:>11,.0f}{row.cpu_us:>13.0f}{row.lost:>6}{row.rss_mb:>8.0f}{waits}"
        )
    for row in rows:
        rates = [each.per_second for each in found if each.name == row.name]
        click.echo(
            f"{row.name}: {min(rates):,.0f} to {max(rates):,.0f} uploads/s; "
            f"of each, µs: broker {row.broker_us:.0f}, publishers {row.publishers_us:.0f}"
        )
    click.echo(
        f"ratio {rows[1].per_second / rows[0].per_second:.2f}; ms: from publishing to the coordinator's receipt"
    )


@bench.command()
@click.option("--devices", default=2000, show_default=True, help="Devices that register.")
@click.option("--uploads", default=3000, show_default=True, help="Uploads of 20 KB that pour in.")
@click.option("--rounds", default=1000, show_default=True, help="Rounds of 50 small devices.")
@json_option
def memory(devices: int, uploads: int, rounds: int, as_json: bool) -> None:
    """What the coordinator holds for each device and each upload, and whether it grows with
    rounds.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.memory import bench_memory

    with TemporaryDirectory(prefix="protofleet-") as folder:
        told = lambda words: click.echo(words, err=True)  # noqa: E731
        rows = bench_memory(devices, uploads, rounds, 50, Path(folder), told)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    click.echo(f"{'the coordinator':<40}{'RSS MB':>8}")
    for row in rows:
        click.echo(f"{row.when:<40}{row.rss_mb:>8.1f}  {row.note}".rstrip())


@bench.command()
@click.option(
    "--rounds", default=40, show_default=True, help="Rounds; the first five are not counted."
)
@click.option("--devices", default=5, show_default=True, help="Device daemons.")
@json_option
def overhead(rounds: int, devices: int, as_json: bool) -> None:
    """A round over MQTT with next to no training: its time, what idle devices hold, and bytes on
    the loopback.

    Other traffic on the interface counts as well.
    """
    from tempfile import TemporaryDirectory

    from simulators.speed.overhead import bench_overhead

    with TemporaryDirectory(prefix="protofleet-") as folder:
        found = bench_overhead(rounds, devices, Path(folder))
    if as_json:
        click.echo(json.dumps(asdict(found) | {"overhead_ms": found.overhead_ms}, indent=1))
        return
    loopback = "not known" if found.loopback_bytes is None else f"{found.loopback_bytes:,.0f} B"
    lines = {
        "from one round to the next": f"{found.round_ms:.0f} ms",
        "of it the slowest device's training process": f"{found.training_ms:.0f} ms",
        "overhead": f"{found.overhead_ms:.0f} ms",
        "a device daemon, its training process beside it": f"{found.daemon_mb:.0f} MB",
        "the training process": f"{found.training_process_mb:.0f} MB",
        "a device daemon alone": f"{found.idle_mb:.0f} MB",
        "on the loopback interface in a round": loopback,
        "payloads, as often as they cross it": f"{found.carried_bytes:,.0f} B",
        "payloads, sent or received by a device": f"{found.payload_bytes:,.0f} B",
    }
    click.echo(
        f"{found.devices} devices, {found.rounds} rounds, the first five not counted; medians"
    )
    for name, value in lines.items():
        click.echo(f"{name:<50}{value:>14}")


@bench.command()
@click.option("--agents", default=8, show_default=True, help="Devices.")
@click.option("--rounds", default=5, show_default=True, help="Rounds.")
@click.option("--only", multiple=True, help="A method; all by default.")
def truth(agents: int, rounds: int, only: tuple[str, ...]) -> None:
    """Every method in the lab and on a live fleet of processes over a real broker: the same state,
    to the bit.
    """
    from protofleet import registry
    from simulators.live.truth import compare_engines

    differing = 0
    for name in only or registry.names():
        found = compare_engines(name, agents, rounds)
        differing += not found.same
        verdict = "same" if found.same else "DIFFERS"
        took = f"lab {found.lab_seconds:.1f} s, fleet {found.fleet_seconds:.1f} s"
        click.echo(f"{name:<12} {verdict:<8} {found.lab[:16]}  {took}")
    if differing:
        raise FleetError(f"{differing} methods end in another state on a live fleet")


bench.add_command(device)
