"""What the laboratory's commands share: their options, and how a configuration comes out of
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coordinator.config import UploadLimits
from protofleet.cli.options import options_of, settings_of
from protofleet.contract import Numerics, Training
from protofleet.errors import FleetError
from protofleet.settings.fields import parse_pairs
from simulators.run.config import BudgetOptions, LabConfig, MaskOptions, Run
from simulators.run.partitions import PartitionOptions

if TYPE_CHECKING:
    from simulators.run.comparison import Comparison

F = TypeVar("F", bound=Callable[..., Any])


def run_options(*, leave_out: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Every option that decides a run's outcome."""

    def add(command: F) -> F:
        command = click.option(
            "--admission",
            multiple=True,
            metavar="NAME=VALUE",
            help="A limit of the coordinator's [admission]: norm, count, samples, trace, largest.",
        )(command)
        command = click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of the method.",
        )(command)
        # The other way round than help shows them: each is put before what is there.
        for cls in (BudgetOptions, MaskOptions, Numerics, Training, PartitionOptions, Run):
            command = options_of(cls, leave_out=leave_out)(command)
        return command

    return add


def config_of(values: dict[str, Any]) -> LabConfig:
    """Take a configuration out of a command's keywords; what is left in them is the command's
    own.
    """
    return LabConfig(
        run=settings_of(Run, values),
        partition=settings_of(PartitionOptions, values),
        training=settings_of(Training, values),
        numerics=settings_of(Numerics, values),
        settings=tuple(values.pop("settings", ())),
        admission=parse_pairs(UploadLimits, values.pop("admission", ())),
        masks=settings_of(MaskOptions, values),
        budget=settings_of(BudgetOptions, values),
    )


def run_each(runs: Mapping[str, Callable[[], object]]) -> list[str]:
    """One after the other; a run that fails (as one that diverges) is told and stops no other."""
    failed = []
    for name, run in runs.items():
        try:
            run()
        except FleetError as error:
            click.echo(f"\n{name}: {error}", err=True)
            failed.append(name)
    return failed


def fail_for(failed: Sequence[str]) -> None:
    """Fail, if any of these runs did."""
    if failed:
        raise FleetError(f"these runs failed, for the reasons above: {', '.join(failed)}")


workers_option = click.option(
    "--workers", default=1, show_default=True, help="Processes; the result is the same."
)


def engine_options(**own: str) -> Callable[[F], F]:
    """Where devices live and runs go on; `own` are engines of the command's, in words."""
    words = {"ray": "devices and runs over a Ray cluster, the same outcome", **own}

    def add(command: F) -> F:
        command = click.option(
            "--address",
            default="",
            metavar="HOST:PORT",
            help="With --engine ray: its cluster; auto: the one that this machine is part of. By "
            "default RAY_ADDRESS, or this machine's cores.",
        )(command)
        command = click.option(
            "--engine",
            "engine_name",
            type=click.Choice(["lab", *words]),
            default="lab",
            show_default=True,
            help="; ".join(f"{name}: {what}" for name, what in words.items()) + ".",
        )(command)
        return click.option(
            "--workers",
            type=click.IntRange(1),
            default=None,
            help="Processes of a run; the result is the same. By default 1; with ray all cores.",
        )(command)

    return add


seeds_option = click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Run each with so many seeds, from --seed on: means, intervals, paired tests.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def show(comparison: Comparison, out: Path | None, *, as_json: bool) -> None:
    """A comparison on stdout; of several seeds also what they say together, for a paper."""
    from simulators.run.comparison import render
    from simulators.run.summary import as_csv, latex, text

    if comparison.seeds > 1 and out is not None:
        (out / "summary.csv").write_text(as_csv(comparison))
        (out / "summary.tex").write_text(latex(comparison))
    if as_json:
        click.echo(json.dumps(comparison.plain(), indent=1))
        return
    click.echo(render(comparison))
    if comparison.seeds > 1:
        click.echo(f"\n{text(comparison)}")


def photographs_options(command: F) -> F:
    """Real photographs, and what looks at them."""
    command = click.option(
        "--extractor",
        required=True,
        type=click.Path(exists=True, path_type=Path),
        help="A bundle of `protofleet extractor`.",
    )(command)
    return click.option(
        "--data",
        required=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folders <domain>/<class>/*; a domain is a device.",
    )(command)


def progress(words: str) -> None:
    """One line on a terminal, in place of the one before."""
    click.echo(f"\r{words:<78}", nl=False, err=True)
