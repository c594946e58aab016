"""`protofleet demo`: the main job in a minute, live, on data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from simulators.cli.common import workers_option

WORDS_AT_THE_END = """
prototype: nearest prototype among the classes a device has; \
head: its classifier, among all classes.
FedProto sends class means only, a small part of FedAvg's bytes, \
and every device keeps its own network.
fleet sends what its samples are like once, under an extractor that nobody trains.

Where to look next:
  docs/operate.md                                            \
your own fleet: broker, coordinator, agents
  protofleet simulate --method fleet --out runs/first        \
pictures, result.json, every setting
  protofleet methods show fleet                              what a method can be told"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=10, show_default=True, help="Rounds of exchange.")
@click.option("--agents", default=5, show_default=True, help="Devices.")
@click.option(
    "--broker",
    type=click.Choice(["auto", "mosquitto", "embedded"]),
    default="auto",
    show_default=True,
    help="auto: mosquitto where it is installed.",
)
@workers_option
def demo(rounds: int, agents: int, broker: str, workers: int) -> None:
    """A fleet on this machine: a broker, a coordinator, and devices that each hold few of the ten
    digits.
    """
    from coordinator.service.extractors import RANDOM
    from protofleet.contract import Training
    from simulators.live import contributions, fleet, ondevice
    from simulators.run.comparison import CompareOptions, compared, planned, render
    from simulators.run.config import LabConfig, Run
    from simulators.run.partitions import PartitionOptions
    from simulators.run.progress import watched
    from simulators.run.setup import prepare
    from simulators.run.workers import Local

    # Few classes a device but more than one, and a common start, without which weights could not be
    # averaged: settings under which every method of the table can do what it is for.
    def config(method: str) -> LabConfig:
        run = Run(
            method=method,
            dataset="digits",
            agents=agents,
            partition="dirichlet",
            rounds=rounds,
            seed=1,
            common_start="yes",
        )
        return LabConfig(
            run, PartitionOptions(alpha=0.3), Training(batch_size=8, lr=0.03, momentum=0.5)
        )

    setup = prepare(config("fleet"))
    click.echo(
        f"{agents} devices hold 1,797 images of digits, each mostly a few of the ten classes "
        "(non-IID)."
    )
    click.echo("They may not share images. What do they gain by sharing something else?\n")
    click.echo(
        f"Live: a broker, a coordinator and {agents} edge agents, each a process of its own."
    )
    with TemporaryDirectory(prefix="protofleet-") as folder, watched("live fleet", 1) as watch:
        live = fleet.run(setup, Path(folder), watch, broker)  # type: ignore[arg-type]
        device = ondevice.answer(live, Path(folder), setup.agents[0])
        here = contributions.laboratory(setup, Path(folder) / "coordinator-data" / RANDOM).sha256
    accuracy, up = live.rows[-1].accuracy["head"], live.rows[-1].up_bytes
    click.echo(
        f"each said once what its images are like, {up / agents / 1e3:.0f} kB a device: "
        f"{100 * accuracy:.2f} % of all devices' test images right"
    )
    same = "the same, to the bit" if here == live.state.sha256 else f"another: {here}"
    click.echo(f"state {live.state.sha256[:16]}...; the laboratory ends in {same}\n")
    click.echo(
        "On a device: the fleet's extractor and classifier in "
        f"{device.bundle_bytes / 1e3:.0f} kB;\n"
        f"{device.right} of {device.agent}'s {device.images} test images right, "
        "by numpy and onnxruntime alone.\n"
    )
    click.echo("In the laboratory, on the same devices:")
    comparison = compared(
        {name: planned(config(name)) for name in ("local", "fedavg", "fedproto", "fleet")},
        CompareOptions(Local(workers)),
    )
    click.echo(render(comparison))
    click.echo(WORDS_AT_THE_END)
