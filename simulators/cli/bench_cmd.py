"""`protofleet bench`: figures beside those of others, each a command that prints a table."""

from __future__ import annotations

import click

from simulators.cli.bench_align_cmd import align
from simulators.cli.bench_attacks_cmd import attacks
from simulators.cli.bench_budget_cmd import budget
from simulators.cli.bench_bytes_cmd import against_bytes
from simulators.cli.bench_cameras_cmd import cameras
from simulators.cli.bench_codec_cmd import codec
from simulators.cli.bench_cross_cmd import cross
from simulators.cli.bench_crowd_cmd import crowd
from simulators.cli.bench_device_cmd import device
from simulators.cli.bench_ingest_cmd import ingest
from simulators.cli.bench_lab_cmd import lab
from simulators.cli.bench_ledger_cmd import ledger
from simulators.cli.bench_masks_cmd import masks
from simulators.cli.bench_memory_cmd import memory
from simulators.cli.bench_overhead_cmd import overhead
from simulators.cli.bench_pages_cmd import pages
from simulators.cli.bench_papers_cmd import papers
from simulators.cli.bench_photos_cmd import photos
from simulators.cli.bench_rogues_cmd import rogues
from simulators.cli.bench_rollouts_cmd import rollouts
from simulators.cli.bench_silence_cmd import silence
from simulators.cli.bench_sites_cmd import sites
from simulators.cli.bench_smoothing_cmd import smoothing
from simulators.cli.bench_taps_cmd import taps
from simulators.cli.bench_truth_cmd import truth


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Measure; every table compares contenders side by side in one run."""


# What a command measures is imported when it is called: help must not wait for torch.
for command in (
    align,
    attacks,
    budget,
    against_bytes,
    cameras,
    codec,
    cross,
    crowd,
    device,
    ingest,
    lab,
    ledger,
    masks,
    memory,
    overhead,
    pages,
    papers,
    photos,
    rogues,
    rollouts,
    silence,
    sites,
    smoothing,
    taps,
    truth,
):
    bench.add_command(command)
