"""`protofleet export`: a trained model as a bundle for devices."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from export.source import Source


F = TypeVar("F", bound=Callable[..., Any])


def bundle_options(command: F) -> F:
    """Where a bundle is written, in which forms, with which page, and how it is spoken of."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    for add in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
        click.option(
            "--node-modules",
            type=folder,
            help="Take onnxruntime-web and mqtt from here; by default npm fetches them.",
        ),
        click.option(
            "--web",
            type=click.Path(path_type=Path),
            help="Write a page with this bundle here, too.",
        ),
        click.option(
            "--format",
            "formats",
            type=click.Choice(["onnx", "onnx,ort"]),
            default="onnx",
            show_default=True,
            help="ort: for reduced builds of onnxruntime, with their operator list.",
        ),
        click.option("--smallest", is_flag=True, help="Keep int8 also where it is not faster."),
        click.option(
            "--precision",
            type=click.Choice(["fp32", "fp16", "int8"]),
            default="fp32",
            show_default=True,
        ),
        click.option(
            "--out",
            required=True,
            type=click.Path(path_type=Path),
            help="The bundle: a folder, or a file NAME.pfb.",
        ),
    ):
        command = add(command)
    return command


@click.command()
@click.option(
    "--from",
    "where",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A run's directory (`simulate --out`), or one checkpoint in it.",
)
@bundle_options
@click.option(
    "--agent", help="Whose network; by default one as good as the run reports of all together."
)
@click.option(
    "--by",
    help="How it shall classify (prototype, head, mixture); by default as the run is known by.",
)
@click.option(
    "--also",
    type=click.Choice(["baked", "fixed", "raw"]),
    multiple=True,
    help="Further forms: see docs/bundle.md.",
)
@click.option(
    "--image-size", type=click.IntRange(1), help="Another image size, for networks that take any."
)
@click.option(
    "--data",
    help="Samples to calibrate and check with; by default those of the run's own data set that no "
    "device trained on.",
)
@click.option(
    "--calibration/--no-calibration",
    default=True,
    help="Carry embeddings of check samples, by which unknown things are told.",
)
@click.option(
    "--freeze", is_flag=True, help="This extractor is to be the fleet's: see `coordinator freeze`."
)
def export(
    where: Path,
    out: Path,
    agent: str | None,
    by: str | None,
    precision: Any,
    smallest: bool,
    also: tuple[str, ...],
    image_size: int | None,
    data: str | None,
    calibration: bool,
    formats: str,
    web: Path | None,
    node_modules: Path | None,
    freeze: bool,
    as_json: bool,
) -> None:
    """Write a bundle: graph, prototypes, manifest, self-test and the report of its verification."""
    from export import writer

    exported = writer.export(
        of_run(where, agent, data, image_size),
        writer.Wanted(
            precision,
            smallest,
            by,
            also,
            calibration=calibration,
            freeze=freeze,
            ort=formats == "onnx,ort",
        ),
    )
    bundle = writer.write(exported, out)
    if web is not None:
        from export import page

        page.write(writer.contents_of(exported), web, node_modules)
    report = exported.report
    if as_json:
        document = {"out": str(out), "digest": bundle.digest, "report": report}
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo("\n".join(lines(exported.manifest, report, str(out), bundle.digest)))


def of_run(where: Path, agent: str | None, data: str | None, image_size: int | None) -> Source:
    """A device of a lab run, and samples of the run's data set or of another."""
    from edge_agent.data.sets import load
    from export import source

    saved = source.find(where)
    samples = load(
        data or saved.config["dataset"],
        data_dir=folder(),
        seed=int(saved.config["seed"]),
        image_size=image_size or saved.config.get("image_size") or None,
    )
    other = data is not None and Path(data).resolve() != Path(saved.config["dataset"]).resolve()
    return source.from_run(saved, agent, samples, image_size, other=other)


def folder() -> Path | None:
    """Where known data sets are kept."""
    where = os.environ.get("PROTOFLEET_DATA")
    return Path(where) if where else None


def lines(manifest: Any, report: Any, out: str, digest: str) -> list[str]:
    """The report as a person reads it."""
    rows = [
        f"{out}: {manifest.backbone}, {manifest.method} round {manifest.round}, "
        f"{manifest.precision}, {digest[:16]}",
        f"{'':<6}{'bytes':>12}{'ms':>9}{'difference':>12}{'same class':>12}{'accuracy':>10}",
    ]
    for name in ("fp32", "fp16", "int8"):
        if name in report:
            check = report[name]
            share = check["accuracy_after"]
            accuracy = "" if share is None else f"{100 * share:.2f} %"
            rows.append(
                f"{name:<6}{check['bytes']:>12,}{check['milliseconds']:>9.3f}"
                f"{check['difference']:>12.1e}{100 * check['agreement']:>10.2f} %{accuracy:>10}"
            )
    rows += [f"kept {report['kept']}"] if "kept" in report else []
    rows += [f"network of {report['took']}"] if report.get("took") else []
    rows.append(
        f"accuracy on {report['measured']}, of any class"
        if report.get("measured")
        else "accuracy not measured: nobody says which samples were not trained on"
    )
    return [*rows, f"classifies by {manifest.reading.by}, lineage {manifest.lineages[0]}"]
