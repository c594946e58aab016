"""`protofleet extractor`: a network that sees, as a bundle in which no class is known yet."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from export.cli.export_cmd import bundle_options
from protofleet.errors import UsageError

if TYPE_CHECKING:
    from export.extractor import Extractor
    from export.trial import Trial

PHOTOS = 256  # that int8 is calibrated with, and every form is checked on


@click.command()
@click.argument("source")
@bundle_options
@click.option(
    "--weights", default="", help="Of a network by name: imagenet, or a file (.pt, .pth)."
)
@click.option(
    "--output", default="", metavar="NAME", help="Of an ONNX file: which value is the feature."
)
@click.option(
    "--layout", type=click.Choice(["NCHW", "NHWC"]), help="Of an ONNX file that does not show it."
)
@click.option(
    "--kind",
    default="image",
    show_default=True,
    type=click.Choice(["image", "vector", "series"]),
    help="What a sample is: vectors of --size 13, series of --size 200x6 (moments by channels).",
)
@click.option("--size", help="224, or height by width: 192x256; by default as it was trained.")
@click.option("--channels", default=3, type=click.Choice(["1", "3"]), help="Of networks by name.")
@click.option(
    "--scale",
    help="imagenet, half, 0..1, 0..255, or mean/deviation of pixels in 0 to 1; by default as "
    "it was trained.",
)
@click.option("--seed", default=0, show_default=True, help="Of random.")
@click.option("--fleet", default="fleet", show_default=True, help="The fleet it is for.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Photos that every form is checked on; int8 needs some.",
)
def extractor(source: str, out: Path, fleet: str, as_json: bool, **options: Any) -> None:
    """Write SOURCE as a bundle that knows no class yet: for `edge-agent enroll`, `coordinator
    freeze` and the fleet's own samples.

    SOURCE is `random` (fixed filters from a seed, for small images, vectors and series), `lite0` or
    `mobilenet_v2` (their weights come in packages), a network of torchvision by name with
    --weights, `module:function` that returns a torch module, or any ONNX file.
    """
    from export import writer
    from export.extractor import extractor as of_terms
    from export.feeding import SourceTerms, numbers, scale_of, size_of

    # A module of the caller's, as `python -m` would find it.
    sys.path.insert(0, os.getcwd())
    size, scale, samples = options["size"], options["scale"], None
    if options["kind"] != "image":
        samples = numbers(options["kind"], size or "", scale or "")
        size = scale = None
    made_of = SourceTerms(
        source,
        options["weights"],
        options["output"],
        options["layout"] or "",
        size_of(size) if size else None,
        int(options["channels"]),
        scale_of(scale) if scale else None,
        options["seed"],
        samples,
    )
    built = of_terms(made_of)
    want = writer.Wanted(
        options["precision"],
        options["smallest"],
        ort=options["formats"] == "onnx,ort",
    )
    photos = photos_in(options["data"], built) if options["data"] else None
    exported = writer.export_extractor(built, want, fleet, photos)
    bundle = writer.write(exported, out)
    if options["web"] is not None:
        from export import page

        page.write(writer.contents_of(exported), options["web"], options["node_modules"])
    if as_json:
        document = {
            "out": str(out),
            "digest": bundle.digest,
            "lineage": built.lineage,
            "feeding": built.feeding,
            "embedding": built.embedding,
            "report": exported.report,
        }
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo("\n".join(lines(built, exported.manifest, exported.report, out, bundle.digest)))


def photos_in(folder: Path, built: Extractor) -> Trial:
    """Some photos of a folder, the same ones every time, as the extractor takes them."""
    import numpy as np

    from edge_agent.data import images
    from export.trial import Trial
    from protofleet.util.seeds import generator

    files = images.find([folder])
    if not files:
        raise UsageError(f"{folder}: there is not one image in it")
    rows = generator("export", "extractor", len(files)).permutation(len(files))[:PHOTOS]
    x = np.stack([images.read(files[row], built.input) for row in sorted(rows)])
    return Trial(x, np.full(len(x), -1, np.int64))


def lines(built: Extractor, manifest: Any, report: Any, out: Path, digest: str) -> list[str]:
    """The report as a person reads it."""
    rows = [
        f"{out}: {built.name}, {built.feeding}, {built.embedding} numbers, "
        f"{manifest.precision}, {digest[:16]}",
        f"{'':<6}{'bytes':>12}{'ms':>9}{'difference':>12}{'least cosine':>14}",
    ]
    rows += [
        f"{name:<6}{check['bytes']:>12,}{check['milliseconds']:>9.3f}"
        f"{check['difference']:>12.1e}{check['cosine']:>14.6f}"
        for name, check in report.items()
        if name in ("fp32", "fp16", "int8")
    ]
    rows += [f"kept {report['kept']}"] if "kept" in report else []
    rows += [f"features are multiplied by {built.factor:g}"] if built.factor != 1 else []
    return [*rows, "no class yet", f"lineage {built.lineage}"]
