"""The papers' cells: which figure of which paper, by which run, what is asked of it, and what was
cut.
"""

from __future__ import annotations

from simulators.papers.cell import MARGINS, Aim, Cell, changed
from simulators.papers.protocols import (
    CIFAR,
    CLUSTERED,
    FASHION,
    MIXED,
    MPS_CIFAR,
    MPS_FASHION,
    POOLED,
    SPIRAL,
    mnist_few_shot,
    quick,
)
from simulators.run.config import LabConfig

FIGURE = Aim("figure")
JPEG = "the images here were JPEG-compressed"

FEDPROTO = (
    Cell(
        "fedproto-cifar10",
        "FedProto, CIFAR-10, 3 ways, 100 shots",
        CIFAR,
        "prototype",
        0.7510,
        0.0094,
        paper_floats=7080,
        note=f"plain LeNet, d = 120, crop and flip; {JPEG}",
    ),
    Cell(
        "fedproto-fashion",
        "FedProto, Fashion-MNIST, 3 ways, 100 shots",
        FASHION,
        "prototype",
        0.9307,
        0.0056,
        note="d = 50 net, no augmentation",
    ),
)

FEDMPS = (
    Cell(
        "fedmps-fashion",
        "FedMPS, Fashion-MNIST",
        MPS_FASHION,
        "prototype",
        0.9358,
        0.0089,
        (FIGURE, Aim("above", 0.0051, "fedproto-fashion")),
        note="the paper's net, a conv-pool a level; α = μ = 1",
    ),
    Cell(
        "fedavg-fashion",
        "FedAvg, Fashion-MNIST",
        quick(changed(FASHION, method="fedavg", backbone="cnn-fashion")),
        "head",
        0.8421,
        0.0339,
        note="FedMPS's net; the classifier among all classes",
    ),
    Cell(
        "fedmps-cifar10",
        "FedMPS, CIFAR-10",
        MPS_CIFAR,
        "prototype",
        0.8014,
        0.0030,
        (FIGURE, Aim("above", 0.04, "fedproto-cifar10-long")),
        paper_floats=30780,
        more_seeds=2,
        note=f"{JPEG}; the paper does not say how many rounds",
    ),
    Cell(
        "fedproto-cifar10-long",
        "FedProto, CIFAR-10, as long as FedMPS",
        quick(changed(CIFAR, rounds=120)),
        "prototype",
        0.7510,
        0.0094,
        paper_floats=7080,
        more_seeds=2,
        note="what FedMPS is compared with",
    ),
    Cell(
        "fedavg-cifar10",
        "FedAvg, CIFAR-10",
        changed(CIFAR, method="fedavg"),
        "head",
        0.6091,
        0.0199,
        note="the classifier among all classes; all 62,006 weights travel",
    ),
)


def _ablation(name: str, terms: str, paper: float, *settings: str) -> Cell:
    return Cell(
        f"fedmps-{name}",
        f"FedMPS, CIFAR-10, table VII: {terms}",
        changed(MPS_CIFAR, settings, rounds=80),
        "prototype",
        paper,
        aims=(FIGURE,),
        more_seeds=-1,
        note="the paper's deviations here are over clients",
    )


ABLATION = (
    _ablation("none", "(1) cross-entropy alone", 0.7467, "lam=0", "mu=0"),
    _ablation("low", "(2) low level", 0.7675, "beta=0", "mu=0"),
    _ablation("high", "(3) high level", 0.7906, "alpha=0", "mu=0"),
    _ablation("soft", "(4) soft labels", 0.7510, "lam=0"),
    _ablation("both", "(5) both levels", 0.7969, "mu=0"),
    _ablation("all", "(6) all terms", 0.8031),
)


def _ways(ways: int, gfpl: tuple[float, float], fedproto: tuple[float, float]) -> tuple[Cell, Cell]:
    base, cut = mnist_few_shot(ways), "40 rounds of {}"
    return (
        Cell(
            f"gfpl-mnist-{ways}",
            f"GFPL, MNIST, {ways} ways",
            changed(base, method="gfpl"),
            "prototype",
            *gfpl,
            (FIGURE, Aim("above", 0.0, f"gfpl-fedproto-{ways}")),
            cut=cut.format(80),
            note="projection against the ETF",
        ),
        Cell(
            f"gfpl-fedproto-{ways}",
            f"FedProto, MNIST, {ways} ways",
            base,
            "prototype",
            *fedproto,
            cut=cut.format(100),
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
        POOLED,
        "prototype_all_classes",
        0.7995,
        0.0376,
        (FIGURE, Aim("above", 0.1355, "mpfedcl-fedavg"), Aim("above", 0.4668, "mpfedcl-fedproto")),
        paper_floats=25_600,
        note=(
            "nearest of the pool, every client on the same test set; the paper counts 5,120 floats "
            "of each client"
        ),
    ),
    Cell(
        "mpfedcl-fedavg",
        "FedAvg, MNIST, Dir(0.05)",
        changed(POOLED, method="fedavg", rounds=110),
        "head",
        0.6640,
        0.0289,
        note="one model, on the same test set",
    ),
    Cell(
        "mpfedcl-fedproto",
        "FedProto, MNIST, Dir(0.05)",
        changed(POOLED, method="fedproto", rounds=100),
        "prototype_all_classes",
        0.3327,
        0.0174,
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
        note=PICTURED,
    ),
    Cell(
        "spiral-fedproto",
        "FedProto, spiral, min/max margin",
        SPIRAL,
        MARGINS,
        aims=(Aim("below", 0.5),),
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
) -> list[Cell]:
    cut = (
        "10,000 samples of 70,000, 60 rounds of 800, LeNet for a CNN that is not described; some "
        "2,200 steps for 210,000, hence a learning rate of 0.02 for 0.005"
    )
    others = (
        Aim("above", 0.0, f"fedic-fedproto-{setting}"),
        Aim("above", 0.0, f"fedic-fedpac-{setting}"),
    )
    return [
        Cell(
            f"fedic-{setting}",
            f"FedIC, {words}",
            base,
            "head",
            fedic,
            aims=(FIGURE, *others),
            pick="best",
            cut=cut,
        ),
        Cell(
            f"fedic-fedproto-{setting}",
            f"FedProto with weights, {words}",
            changed(base, ("clusters=1", "combine=none")),
            "head",
            fedproto,
            pick="best",
            cut=cut,
            note="the paper's FedProto ships weights: global means, one extractor, own heads",
        ),
        Cell(
            f"fedic-fedpac-{setting}",
            f"FedPAC, {words}",
            changed(base, method="fedpac"),
            "head",
            fedpac,
            pick="best",
            cut=cut,
        ),
    ]


DIRICHLET = changed(CLUSTERED, partition="dirichlet")
FEDIC = (
    *_combined("fashion-2", "Fashion-MNIST, 2 classes a device", CLUSTERED, 0.9942, 0.9916, 0.9928),
    *_combined("fashion-dir", "Fashion-MNIST, Dir(0.1)", DIRICHLET, 0.9810, 0.9716, 0.9779),
    *_combined(
        "cifar10-dir",
        "CIFAR-10, Dir(0.1)",
        changed(DIRICHLET, dataset="cifar10"),
        0.9232,
        0.9068,
        0.9113,
    ),
)

MIXED_CUT = (
    "6,000 images of 60,000, 80 rounds of 300; LeNet, 4-layer CNN, ResNet-8 and MobileNetV3-small "
    "for ResNet-8, EfficientNet, ShuffleNetV2 and MobileNetV2; some 560 steps for 21,000 at the "
    "paper's learning rate"
)
PROTONORM = (
    Cell(
        "protonorm-cifar10",
        "ProtoNorm, CIFAR-10, Dir(0.1), mixed networks",
        changed(MIXED, method="protonorm"),
        "prototype_all_classes",
        0.8856,
        0.0011,
        (FIGURE, Aim("above", 0.05, "protonorm-fedproto")),
        "best",
        cut=MIXED_CUT,
        note=f"d = 512, γ = 100; {JPEG}",
    ),
    Cell(
        "protonorm-fedproto",
        "FedProto, CIFAR-10, Dir(0.1), mixed networks",
        MIXED,
        "prototype_all_classes",
        0.8290,
        0.0046,
        pick="best",
        cut=MIXED_CUT,
        note="d = 512",
    ),
)
