"""What `bench photos` prints, of a published set of small images dealt out evenly:

protofleet extractor random --size 28 --channels 1 --out random.pfb
python tools/known_images.py --data fashion-mnist --extractor random.pfb
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from edge_agent.data import sets
from edge_agent.inference.classifier import Classifier
from simulators.cli.common import progress
from simulators.photos.bench import PhotosOptions, bench_photos
from simulators.photos.photographs import ALL, Photographs
from simulators.photos.tables import tables

BLOCK = 500


@click.command()
@click.option("--data", required=True, help="As in the laboratory; PROTOFLEET_DATA has its files.")
@click.option("--extractor", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--devices", default=8, show_default=True)
@click.option("--images", default=6000, show_default=True, help="A third of them is held back.")
@click.option("--seed", default=1, show_default=True)
def main(data: str, extractor: Path, devices: int, images: int, seed: int) -> None:
    where = os.environ.get("PROTOFLEET_DATA")
    known = sets.load(data, data_dir=Path(where) if where else None, seed=seed)
    rows = np.random.default_rng(seed).permutation(known.n_train)[:images]
    classifier = Classifier(extractor, threads=0)
    blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
    photographs = Photographs(
        np.concatenate([classifier.embed(known.x[block]) for block in blocks]),
        known.y[rows],
        np.arange(len(rows)) % devices,
        known.classes,
        tuple(f"device {number}" for number in range(devices)),
    )
    bench = bench_photos(photographs, PhotosOptions(splits=1, shots=(ALL,)), progress)
    click.echo("", err=True)
    click.echo(tables(bench))


if __name__ == "__main__":
    main()
