"""`protofleet bench photos`: a fleet of cameras on real photographs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from simulators.cli.common import json_option, photographs_options, progress


@click.command()
@photographs_options
@click.option("--splits", default=5, show_default=True, help="Of which the mean is printed.")
@click.option(
    "--shots",
    default="1,5,20,100,all",
    show_default=True,
    help="Labels a class and domain, as a list.",
)
@click.option("--classes", type=int, help="New and unknown ones in turn; by default every class.")
@click.option("--bytes", "largest", type=int, help="Of a contribution, at most; default: rank 256.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep features here; embedding is what takes long.",
)
@json_option
def photos(
    data: Path,
    extractor: Path,
    splits: int,
    shots: str,
    classes: int | None,
    largest: int | None,
    cache: Path | None,
    as_json: bool,
) -> None:
    """What a fleet of cameras knows of photographs, beside simpler rules on the same features.

    \b
    protofleet extractor lite0 --out lite0.pfb
    protofleet bench photos --data photos/ --extractor lite0.pfb
    """
    from protofleet.errors import UsageError
    from simulators.photos.bench import PhotosOptions, bench_photos, document
    from simulators.photos.features import embedder
    from simulators.photos.photographs import ALL, embedded
    from simulators.photos.tables import tables

    try:
        counts = tuple(ALL if word == "all" else int(word) for word in shots.split(","))
    except ValueError:
        raise UsageError(f"--shots {shots!r}: numbers and `all`, with commas") from None
    if splits < 1 or min(counts) < 0:
        raise UsageError("--splits and --shots: numbers from 1 up")
    options = PhotosOptions(splits, counts, classes, largest)
    embed = embedder(
        extractor, cache, lambda at, of: progress(f"looking at photographs: {at} of {of}")
    )
    bench = bench_photos(embedded(data, embed), options, progress)
    click.echo("", err=True)
    click.echo(json.dumps(document(bench, options), indent=1) if as_json else tables(bench))
