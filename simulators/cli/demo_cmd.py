"""`protofleet demo`: the main job in a minute, on data that ships with scikit-learn."""

from __future__ import annotations

import click

from simulators.cli.common import workers_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=30, show_default=True, help="Rounds of exchange.")
@workers_option
def demo(rounds: int, workers: int) -> None:
    """Ten devices, each with few of the ten digits: alone, sharing weights, and sharing prototypes."""
    from protofleet.contract import Training
    from simulators.comparison import compared, render
    from simulators.config import LabConfig, Run
    from simulators.partitions import PartitionOptions

    def config(method: str) -> LabConfig:
        return LabConfig(
            run=Run(
                method=method,
                dataset="digits",
                agents=10,
                partition="dirichlet",
                rounds=rounds,
                seed=1,
                common_start="yes",
            ),
            partition=PartitionOptions(alpha=0.3),
            training=Training(batch_size=8, lr=0.03, momentum=0.5),
        )

    click.echo("Ten devices hold 1,797 images of digits, each device mostly a few of the ten classes (non-IID).")
    click.echo("They may not share images. What do they gain by sharing something else?\n")
    found = compared({name: config(name) for name in ("local", "fedavg", "fedproto")}, workers, None, resume=False)
    click.echo()
    click.echo(render(found))
    click.echo(
        "\nprototype: nearest prototype among the classes a device has; head: its classifier, among all classes."
        "\nFedProto sends class means only, a sixtieth of FedAvg's bytes, and every device keeps its own network."
        "\n\nWhere to look next:"
        "\n  protofleet simulate --method fedproto --out runs/first     pictures, result.json, every setting"
        "\n  protofleet methods show fedproto                           what a method can be told"
        "\n  docs/start.md                                              five minutes for each kind of user"
    )
