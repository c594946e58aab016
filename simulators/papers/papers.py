"""The papers' cells: which figure of which paper, by which run, what is asked of it, and what was
cut.
"""

from __future__ import annotations

from dataclasses import replace

from simulators.papers.cell import MARGINS, Aim, Cell, changed
from simulators.papers.protocols import (
    CIFAR,
    CLUSTERED,
    MIXED,
    MPS_CIFAR,
    MPS_FASHION,
    POOLED_AS_PRINTED,
    SPIRAL,
    mnist_few_shot,
)
from simulators.run.config import LabConfig

FIGURE = Aim("figure")
# FedMPS's code normalises the embedding for every method, and its FedAvg takes the plain mean.
_PROTO = {"method": "fedproto", "unit_embedding": True}
_AVG = {"method": "fedavg", "unit_embedding": True}
_PLAIN = ("weighted=no",)


def plain(config: LabConfig) -> LabConfig:
    """The same run without settings of its method, for another method to take over."""
    return replace(config, settings=())


def fedproto_of(config: LabConfig) -> LabConfig:
    """FedProto in FedMPS's place, as FedMPS's code runs it."""
    return changed(plain(config), (), **_PROTO)


def fedavg_of(config: LabConfig) -> LabConfig:
    """FedAvg in FedMPS's place, as FedMPS's code runs it."""
    return changed(plain(config), _PLAIN, **_AVG)


FEDPROTO = (
    Cell(
        "fedproto-cifar10",
        "FedProto, CIFAR-10, as its own code has it",
        changed(CIFAR, rounds=110),
        "prototype",
        0.7510,
        0.0094,
        pick="best",
        where="FedMPS, table III",
        paper_floats=7080,
        note="plain LeNet, d = 120, not normalised, crop and flip, 110 rounds",
    ),
    Cell(
        "fedproto-fashion",
        "FedProto, Fashion-MNIST",
        fedproto_of(MPS_FASHION),
        "prototype",
        0.9307,
        0.0056,
        pick="best",
        where="FedMPS, table III",
        note="FedMPS's net",
    ),
)

FEDMPS_CIFAR = (
    Cell(
        "fedmps-cifar10",
        "FedMPS, CIFAR-10",
        MPS_CIFAR,
        "prototype",
        0.8014,
        0.0030,
        (FIGURE, Aim("above", 0.035, "fedproto-cifar10-long")),
        pick="best",
        where="FedMPS, table III",
        paper_floats=30780,
        note="its code reports the best round; 500 rounds are its README's",
    ),
    Cell(
        "fedproto-cifar10-long",
        "FedProto, CIFAR-10, as FedMPS's code runs it",
        fedproto_of(MPS_CIFAR),
        "prototype",
        0.7510,
        0.0094,
        pick="best",
        where="FedMPS, table III",
        paper_floats=7080,
        note="embeddings of length one, as many rounds as FedMPS",
    ),
    Cell(
        "fedavg-cifar10",
        "FedAvg, CIFAR-10",
        fedavg_of(MPS_CIFAR),
        "head",
        0.6091,
        0.0199,
        pick="best",
        where="FedMPS, table III",
        note="plain mean; the classifier among all classes; all 62,006 weights travel",
    ),
)
FEDMPS_FASHION = (
    Cell(
        "fedmps-fashion",
        "FedMPS, Fashion-MNIST",
        MPS_FASHION,
        "prototype",
        0.9358,
        0.0089,
        (FIGURE, Aim("above", 0.0051, "fedproto-fashion")),
        pick="best",
        where="FedMPS, table III",
        note="the paper's net, a conv-pool a level; α = μ = 1; 800 rounds are its README's",
    ),
    Cell(
        "fedavg-fashion",
        "FedAvg, Fashion-MNIST",
        fedavg_of(MPS_FASHION),
        "head",
        0.8421,
        0.0339,
        pick="best",
        where="FedMPS, table III",
        note="plain mean; FedMPS's net; the classifier among all classes",
    ),
)


def _ablation(name: str, terms: str, paper: float, *settings: str) -> Cell:
    return Cell(
        f"fedmps-{name}",
        f"FedMPS, CIFAR-10: {terms}",
        changed(MPS_CIFAR, settings),
        "prototype",
        paper,
        aims=(FIGURE,),
        pick="best",
        where="FedMPS, table VII",
        seeds=1,
        note="one seed, as in the paper, whose deviations here are over clients",
    )


ABLATION = (
    _ablation("none", "(1) cross-entropy alone", 0.7467, "lam=0", "mu=0"),
    _ablation("low", "(2) low level", 0.7675, "beta=0", "mu=0"),
    _ablation("high", "(3) high level", 0.7906, "alpha=0", "mu=0"),
    _ablation("soft", "(4) soft labels", 0.7510, "lam=0"),
    _ablation("both", "(5) both levels", 0.7969, "mu=0"),
    # The very run of table III under its first seed.
    replace(_ablation("all", "(6) all terms", 0.8031), runs="fedmps-cifar10"),
)


def _ways(ways: int, gfpl: tuple[float, float], fedproto: tuple[float, float]) -> tuple[Cell, Cell]:
    base = mnist_few_shot(ways)
    return (
        Cell(
            f"gfpl-mnist-{ways}",
            f"GFPL, MNIST, {ways} ways",
            changed(base, method="gfpl", rounds=80),
            "prototype",
            *gfpl,
            (FIGURE, Aim("above", 0.0, f"gfpl-fedproto-{ways}")),
            where="GFPL, table 1",
            note="projection against the ETF",
        ),
        Cell(
            f"gfpl-fedproto-{ways}",
            f"FedProto, MNIST, {ways} ways",
            changed(base, rounds=100),
            "prototype",
            *fedproto,
            where="GFPL, table 1",
            note="GFPL's batches of 4",
        ),
    )


GFPL = (
    *_ways(3, (0.9891, 0.0022), (0.9713, 0.0030)),
    *_ways(4, (0.9801, 0.0032), (0.9680, 0.0041)),
    *_ways(5, (0.9783, 0.0021), (0.9670, 0.0029)),
)

MPFEDCL = (
    Cell(
        "mpfedcl-mnist",
        "MP-FedCL, MNIST, Dir(0.05), 2,000 samples",
        POOLED_AS_PRINTED,
        "prototype_all_classes",
        0.7995,
        0.0376,
        (FIGURE, Aim("above", 0.10, "mpfedcl-fedavg"), Aim("above", 0.4668, "mpfedcl-fedproto")),
        where="MP-FedCL, table VI",
        paper_floats=25_600,
        note=(
            "nearest of the pool, every client on the same test set; a ReLU behind the last layer, "
            "as table III has it; the paper counts 5,120 floats of each client"
        ),
    ),
    Cell(
        "mpfedcl-fedavg",
        "FedAvg, MNIST, Dir(0.05)",
        changed(POOLED_AS_PRINTED, method="fedavg", rounds=110),
        "head",
        0.6640,
        0.0289,
        where="MP-FedCL, table VI",
        note="one model, on the same test set",
    ),
    Cell(
        "mpfedcl-fedproto",
        "FedProto, MNIST, Dir(0.05)",
        changed(POOLED_AS_PRINTED, method="fedproto", rounds=100),
        "prototype_all_classes",
        0.3327,
        0.0174,
        where="MP-FedCL, table VI",
        note="among all classes; common initial weights",
    ),
)

CLEAR = "spiral:sigma=0.1"
UPSCALED = changed(SPIRAL, ("gamma=10",), method="protonorm")
PICTURED = "noise as printed; the paper shows a picture (figure 2) and no number"
SPIRALS = (
    Cell(
        "protonorm-spiral",
        "ProtoNorm, spiral, min/max margin",
        UPSCALED,
        MARGINS,
        aims=(Aim("at least", 0.9),),
        where="ProtoNorm, figure 2",
        note=PICTURED,
    ),
    Cell(
        "spiral-fedproto",
        "FedProto, spiral, min/max margin",
        SPIRAL,
        MARGINS,
        aims=(Aim("below", 0.5),),
        where="ProtoNorm, figure 2",
        note=PICTURED,
    ),
    Cell(
        "protonorm-spiral-clear",
        "ProtoNorm, spiral at σ = 0.1",
        changed(UPSCALED, dataset=CLEAR),
        "prototype_all_classes",
        aims=(Aim("above", 0.0, "spiral-fedproto-clear"),),
        note="not in the paper",
    ),
    Cell(
        "spiral-fedproto-clear",
        "FedProto, spiral at σ = 0.1",
        changed(SPIRAL, dataset=CLEAR),
        "prototype_all_classes",
        aims=(),
        note="not in the paper",
    ),
)


def _combined(
    setting: str, words: str, base: LabConfig, fedic: float, fedproto: float, fedpac: float
) -> tuple[Cell, Cell, Cell]:
    others = (
        Aim("above", 0.0, f"fedic-fedproto-{setting}"),
        Aim("above", 0.0, f"fedic-fedpac-{setting}"),
    )
    cell = Cell(
        f"fedic-{setting}",
        f"FedIC, {words}",
        base,
        "head",
        fedic,
        aims=(FIGURE, *others),
        # As PFLlib's codes report: the best round of right answers over all samples.
        pick="best",
        over="samples",
        where="FedIC, table 1",
        note="a four-layer CNN, of the size that the paper's traffic implies",
    )
    return (
        cell,
        replace(
            cell,
            name=f"fedic-fedproto-{setting}",
            title=f"FedProto with weights, {words}",
            config=changed(base, ("clusters=1", "combine=none")),
            paper=fedproto,
            aims=(FIGURE,),
            note="the paper's FedProto ships weights: global means, one extractor, own heads",
        ),
        replace(
            cell,
            name=f"fedic-fedpac-{setting}",
            title=f"FedPAC, {words}",
            config=changed(base, method="fedpac"),
            paper=fedpac,
            aims=(FIGURE,),
        ),
    )


DIRICHLET = changed(CLUSTERED, partition="dirichlet")
FEDIC_PAIRS = _combined(
    "fashion-2", "Fashion-MNIST, 2 classes a device", CLUSTERED, 0.9942, 0.9916, 0.9928
)
FEDIC_DIR = _combined("fashion-dir", "Fashion-MNIST, Dir(0.1)", DIRICHLET, 0.9810, 0.9716, 0.9779)
FEDIC_CIFAR = _combined(
    "cifar10-dir",
    "CIFAR-10, Dir(0.1)",
    changed(DIRICHLET, dataset="cifar10"),
    0.9232,
    0.9068,
    0.9113,
)
FEDIC_CIFAR_PAIRS = _combined(
    "cifar10-2",
    "CIFAR-10, 2 classes a device",
    changed(CLUSTERED, dataset="cifar10"),
    0.9397,
    0.9225,
    0.9332,
)


def _normalised(
    name: str, words: str, base: LabConfig, ours: tuple[float, float], theirs: tuple[float, float]
) -> tuple[Cell, Cell]:
    cell = Cell(
        f"protonorm-{name}",
        f"ProtoNorm, {words}",
        changed(base, method="protonorm"),
        "prototype_all_classes",
        *ours,
        (FIGURE, Aim("above", 0.04, f"protonorm-fedproto{name.removeprefix('cifar10')}")),
        pick="best",
        over="samples",
        where="ProtoNorm, table 1",
        note="ResNet-8, EfficientNet-B0, ShuffleNetV2 and MobileNetV2 in turn; d = 512, γ = 100",
    )
    other = replace(
        cell,
        name=f"protonorm-fedproto{name.removeprefix('cifar10')}",
        title=f"FedProto, {words}",
        config=base,
        paper=theirs[0],
        paper_std=theirs[1],
        aims=(FIGURE,),
        note="the same networks; d = 512",
    )
    return cell, other


PROTONORM = _normalised(
    "cifar10", "CIFAR-10, Dir(0.1), mixed networks", MIXED, (0.8856, 0.0011), (0.8290, 0.0046)
)
PROTONORM_PAIRS = _normalised(
    "cifar10-2",
    "CIFAR-10, 2 classes a device, mixed networks",
    changed(MIXED, partition="pathological", pairs="consecutive", shares="unequal"),
    (0.8840, 0.0016),
    (0.8055, 0.0005),
)
