"""`protofleet simulate`: one method on one partition, in the laboratory."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import click

from protofleet.errors import UsageError
from simulators.cli.common import config_of, engine_options, json_option, run_options

if TYPE_CHECKING:
    from simulators.cluster.engine import Name
    from simulators.run.result import Outcome
    from simulators.run.rounds import Watch
    from simulators.run.setup import Setup


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@run_options()
@engine_options(fleet="real agents and a real coordinator over a real broker, here, the same, too")
@click.option(
    "--checkpoint-every", default=5, show_default=True, help="Rounds between checkpoints in --out."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Leave result, state and pictures here.",
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@json_option
def simulate(
    workers: int | None,
    engine_name: Name | Literal["fleet"],
    address: str,
    checkpoint_every: int,
    out: Path | None,
    resume: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Run one method in the laboratory, with the agents, the codec and the fusion of the live
    fleet.

    \b
    protofleet simulate --method fedproto --rounds 20
    protofleet simulate --method fedproto --dataset cifar10 --partition few-shot --spread 1 \\
        --augment crop-flip --rounds 80 --workers 2 --out runs/cifar
    protofleet simulate --method fedproto --set lam=0.5 --json > result.json

    MNIST, Fashion-MNIST and CIFAR are looked for as NAME.npz in the folder that PROTOFLEET_DATA
    names.
    """
    from simulators.cluster.engine import engine
    from simulators.run.progress import size, watched
    from simulators.run.result import document
    from simulators.run.rounds import LabOptions, run_in
    from simulators.run.setup import prepare

    if resume and out is None:
        raise UsageError("--resume continues a run in a directory", "name it with --out")
    setup = prepare(config_of(values))
    run = setup.config.run
    if not as_json:
        click.echo(f"{run.method} on {run.dataset}: {setup.described}")
    with watched(f"{run.method} on {run.dataset}", run.rounds) as watch:
        if engine_name == "fleet":
            outcome = _on_a_fleet(setup, watch, out)
        else:
            with engine(engine_name, workers, address) as where:
                how = LabOptions(where, checkpoint_every, common=True)
                outcome = run_in(setup, how, watch, out, resume=resume)
    result = document(outcome)
    if as_json:
        click.echo(json.dumps(result, indent=1))
        return
    last, best = outcome.rows[-1], result["best"]
    for name, accuracy in last.accuracy.items():
        spread = f"± {100 * last.accuracy_std[name]:.2f} over devices"
        share = last.common.get(name)
        alike = "" if share is None else f"{100 * share:6.2f} % of one test set"
        click.echo(f"{name:<24} {100 * accuracy:6.2f} %  {spread:<22} {alike}".rstrip())
    if best["accuracy"] is not None:
        click.echo(
            f"best round {best['round']}: {100 * best['accuracy']:.2f} % ({best['evaluator']})"
        )
    if result["verdict"] is not None:
        click.echo(result["verdict"])
    traffic = f"{size(last.up_bytes)} up, {size(last.down_bytes)} down"
    click.echo(f"a round: {traffic}; {outcome.seconds:.1f} s in all")
    click.echo(f"state {outcome.state.sha256}")
    if setup.private is not None:
        account = setup.private.accountant
        click.echo(
            f"privacy: ε {last.epsilon:.3f} of {account.budget.epsilon:g} at δ"
            f" {account.budget.delta:g} is spent, of one {setup.private.unit};"
            f" {account.publications} publications in all"
        )
    if out is not None and engine_name == "fleet":
        click.echo(
            f"left in {out}: result.json, the coordinator's journal, every device's files, logs"
        )
    elif out is not None:
        click.echo(
            f"left in {out}: result.json, rounds.csv, state.cbor, "
            "curve.png, partition.png, embeddings.png"
        )


def _on_a_fleet(setup: Setup, watch: Watch, out: Path | None) -> Outcome:
    from simulators.live import fleet
    from simulators.run.result import document

    if out is None:
        with TemporaryDirectory(prefix="protofleet-") as folder:
            return fleet.run(setup, Path(folder), watch)
    # A journal there would be taken up: the run would go on and not begin.
    if (out / "coordinator-data").exists():
        raise UsageError(f"{out} already holds a fleet's run", "name another --out")
    out.mkdir(parents=True, exist_ok=True)
    outcome = fleet.run(setup, out.resolve(), watch)
    (out / "result.json").write_text(json.dumps(document(outcome), indent=1))
    return outcome
