"""The page's sections: the papers' cells by protocol, and beside them the readings that a paper
leaves open.

A reading is a cell of its own and never replaces the paper's. Many were written after a figure was
missed, to find out why, so that one of them reaches it says where the difference lies and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from simulators.papers import papers, sweeps
from simulators.papers.cell import Cell, changed


@dataclass(frozen=True)
class Section:
    """Cells that share a protocol; `picture` is what is drawn of them."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    readings: tuple[Cell, ...] = ()
    picture: Literal["curves", "maps", "none"] = "curves"
    maps: tuple[str, ...] = ()  # cells whose networks' view of the samples is drawn side by side
    main: bool = False  # of the papers' main tables; counted apart from what is further
    own_means: bool = False  # whether its runs of prototypes are judged by formula (6) as well
    about: str = ""  # what is so whether anything was run or not


def _reading(of: Cell, name: str, title: str, *settings: str, **options: object) -> Cell:
    return replace(
        of,
        name=f"{of.name}-{name}",
        title=title,
        config=changed(of.config, settings, **options),
        aims=(),
        cut="",
        note="",
        seeds=1,
        reading_of=of.name,
    )


_FASHION, _CIFAR = papers.FEDMPS_FASHION[0], papers.FEDMPS_CIFAR[0]
_PROTO, _PROTO_FASHION = papers.FEDPROTO
_PROTO_LONG, _AVG_LONG = papers.FEDMPS_CIFAR[1:]
_POOL, _SHARED, _APART = papers.MPFEDCL
_GFPL = papers.GFPL[0]
_IC = papers.FEDIC_DIR[0]
# What the public copy of FedMPS's code does where the paper is silent.
CODE = ("scaled=yes", "server_optimizer=adam", "average=logits")

FASHION_READINGS = (
    _reading(_FASHION, "code", "FedMPS, as the public code has it", *CODE),
    _reading(
        _PROTO_FASHION,
        "own",
        "FedProto, as its own code has it: the d = 50 net, not normalised, 110 rounds",
        backbone="cnn-mnist",
        unit_embedding=False,
        rounds=110,
    ),
)
CIFAR_READINGS = (
    _reading(
        _CIFAR, "code", "FedMPS, as the public code has it (scaled, Adam, mean logits)", *CODE
    ),
    _reading(
        _CIFAR, "unit", "FedMPS, global prototypes of length one again", "unit_prototypes=yes"
    ),
    _reading(_CIFAR, "common", "FedMPS, common initial weights", common_start="yes"),
    _reading(
        _PROTO_LONG, "raw", "FedProto, 500 rounds, embeddings not normalised", unit_embedding=False
    ),
    # Of FedAvg's code is known that it takes the plain mean, not which network it has.
    _reading(_AVG_LONG, "raw", "FedAvg, embeddings not normalised", unit_embedding=False),
    _reading(_AVG_LONG, "uncropped", "FedAvg, images neither cropped nor flipped", augment="none"),
    _reading(_PROTO, "common", "FedProto, common initial weights", common_start="yes"),
    _reading(_PROTO, "weighted", "FedProto, means weighted by counts", "weighted=yes"),
)
CLASSES_READINGS = tuple(
    _reading(cell, "raw", f"{cell.title}, embeddings not normalised", unit_embedding=False)
    for cell in sweeps.CLASSES
    if cell.name == "fedavg-n4"
)
ABLATION_READINGS = (
    _reading(papers.ABLATION[1], "code", "(2) low level, as the public code has it", *CODE[:2]),
)
GFPL_READINGS = (
    *(
        reading
        for cell in papers.GFPL
        if cell.config.run.method == "gfpl"
        for reading in (
            _reading(cell, "800", f"{cell.title}, 800 rounds (80 exchanges)", rounds=800),
            _reading(cell, "batch", f"{cell.title}, retraining after every batch", "retrain=batch"),
            replace(
                _reading(cell, "15", f"{cell.title}, 15 test samples a class", test_shots=15),
                seeds=3,
            ),
            # The paper does not say which round it reports; other papers' codes report the best.
            replace(
                _reading(cell, "best", f"{cell.title}, the best round"),
                pick="best",
                seeds=cell.seeds,
                runs=cell.name,
            ),
        )
    ),
    _reading(_GFPL, "355", "GFPL, 3.55 classes a device (a spread of 2)", spread=2),
    _reading(_GFPL, "fused", "GFPL, 3 ways, components nearer than 50 fused", "threshold=50"),
    _reading(_GFPL, "passes", "GFPL, 3 ways, ten passes over the pseudo-features", "passes=10"),
    # Of as many seeds as the cell: whether exchange brings anything is a difference of tenths.
    replace(_reading(_GFPL, "alone", "GFPL, 3 ways, without exchange", "pseudo=0"), seeds=3),
)
# What no exchange can give a device: how much there is to gain from the others at all.
GFPL_BOUNDS = (
    _reading(
        sweeps.GFPL_SWEEPS[0],
        "bound",
        "Local, 3 ways, on all devices' samples of its classes",
        train_on="everyone",
        rounds=20,
    ),
)
_COMPARED = ((_POOL, "MP-FedCL"), (_SHARED, "FedAvg"), (_APART, "FedProto"))
# What its table III leaves open, or has for its own method alone.
_OPEN: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    ("even", "learning rate not decayed", {"lr_decay": 1.0}),
    ("unit", "inputs from 0 to 1", {"pixels": "unit"}),
    ("own", "initial weights of each client's own", {"common_start": "no"}),
    ("sizes", "shares not balanced", {"balance": "no"}),
)
MPFEDCL_READINGS = tuple(
    replace(reading, seeds=3)
    for reading in (
        _reading(_POOL, "missing", "MP-FedCL, padding only what is missing", "padding=missing"),
        _reading(_POOL, "light", "MP-FedCL, prototypes only", "prototypes_only=yes"),
        _reading(
            _APART,
            "long",
            "FedProto, learning rate not decayed, 400 rounds",
            lr_decay=1.0,
            rounds=400,
        ),
        *(
            _reading(cell, name, f"{who}, {words}", **options)
            for name, words, options in _OPEN
            for cell, who in _COMPARED
        ),
    )
)
# Three seeds, in the paper and here, are few where figures spread this far: each of ours deals
# another split and draws other weights, and both move FedAvg by ten points and more.
SPLIT_READINGS = tuple(
    replace(
        _reading(cell, "splits", f"{who}, ten seeds, each of another split"),
        seeds=10,
        runs=cell.name,
    )
    for cell, who in _COMPARED
)
# Table III's MLP is that of FedPCL's public code, whose loss, temperature, clients, rounds and
# batches the paper has as well; there embedding and logits have length one, which no table says.
PCL_READINGS = tuple(
    replace(
        _reading(
            cell,
            "pcl",
            f"{who}, network as in FedPCL's code: embedding and logits of length one, ten seeds",
            unit_embedding=True,
            unit_logits=True,
        ),
        seeds=10,
    )
    for cell, who in _COMPARED
)
VARIANT_READINGS = tuple(
    replace(_reading(sweeps.MPFEDCL_SWEEPS[0], name, f"FedProx, {words}", **options), seeds=3)
    for name, words, options in _OPEN
    if name in ("even", "sizes")
)
SPIRAL_READINGS = (
    _reading(papers.SPIRALS[0], "paper", "ProtoNorm, alignment ends as published", "stop=paper"),
)
FEDIC_READINGS = (
    _reading(
        papers.FEDIC_PAIRS[0],
        "random",
        "FedIC, Fashion-MNIST, 2 classes a device, drawn pairs and equal shares",
        pairs="random",
        shares="equal",
    ),
    _reading(_IC, "plain", "FedProto on these devices, which ships no weights", method="fedproto"),
)

SECTIONS = (
    Section(
        "cifar10",
        "FedMPS, FedProto and FedAvg, few-shot CIFAR-10",
        (*papers.FEDMPS_CIFAR, papers.FEDPROTO[0]),
        CIFAR_READINGS,
        maps=("fedmps-cifar10", "fedproto-cifar10-long", "fedavg-cifar10"),
        main=True,
    ),
    Section("ablation", "FedMPS's ablation", papers.ABLATION, ABLATION_READINGS, main=True),
    Section(
        "fashion",
        "FedMPS, FedProto and FedAvg, few-shot Fashion-MNIST",
        (papers.FEDMPS_FASHION[0], papers.FEDPROTO[1], papers.FEDMPS_FASHION[1]),
        FASHION_READINGS,
        maps=("fedmps-fashion", "fedproto-fashion", "fedavg-fashion"),
        main=True,
    ),
    Section(
        "gfpl",
        "GFPL and FedProto, few-shot MNIST",
        papers.GFPL,
        GFPL_READINGS,
        maps=("gfpl-mnist-3", "gfpl-fedproto-3"),
        main=True,
        about=(
            "The paper does not say how many test samples a class has. FedProto's code, whose "
            "protocol it takes, has 40 on MNIST, which is the cell; a reading has 15. What its "
            "table 1 compares with is not of its own protocol: it counts 41 thousand floats a "
            "round for FedProto on CIFAR-10 at d = 128, where 20 clients with all ten classes send "
            "25,600; 80 class means at d = 512 are 40,960. So its gains over Local and FedProto "
            "need not be differences of runs on the same devices. How much there is to gain at all "
            "is read below beside Local: trained on all devices' samples of a device's classes, "
            "which no exchange can give it."
        ),
    ),
    Section(
        "mpfedcl",
        "MP-FedCL, FedAvg and FedProto, MNIST, Dir(0.05)",
        papers.MPFEDCL,
        (*MPFEDCL_READINGS, *SPLIT_READINGS, *PCL_READINGS),
        maps=("mpfedcl-mnist", "mpfedcl-fedavg", "mpfedcl-fedproto"),
        main=True,
    ),
    Section(
        "fedic",
        "FedIC, FedProto and FedPAC, Fashion-MNIST and CIFAR-10",
        (*papers.FEDIC_PAIRS, *papers.FEDIC_DIR, *papers.FEDIC_CIFAR),
        FEDIC_READINGS,
        maps=("fedic-fashion-dir", "fedic-fedproto-fashion-dir", "fedic-fedpac-fashion-dir"),
        main=True,
        about=(
            "The paper does not describe its CNN. Its table 1 counts 156.92 MB a round for 20 "
            "clients on CIFAR-100, ten classes a client, and 151.52 MB for FedProto, which "
            "ships weights there. The four-layer CNN has 924,708 weights on that set: up and down "
            "for 20 clients 147.95 MB, and with 100 prototypes of 512 down and 10 up a client "
            "152.5 MB, within one per cent of the paper's FedProto; so it is taken to be that "
            "network. FedIC needs the statistics of FedPAC's program besides: a row for each of "
            "the 100 classes up makes 156.55 MB, 0.2 % under the paper's 156.92. Ours sends rows, "
            "means and statistics of a device's own ten classes alone: 145.89 MB for the same."
        ),
    ),
    Section(
        "protonorm",
        "ProtoNorm and FedProto, CIFAR-10, mixed networks",
        papers.PROTONORM,
        maps=("protonorm-cifar10", "protonorm-fedproto"),
        main=True,
        own_means=True,
        about=(
            "The paper's formula (6) judges methods of prototypes by a device's own (\"local\") "
            "ones, its public code by the fleet's. The cells are judged as the code does it; what "
            "the same networks have by (6) stands in a table of its own."
        ),
    ),
    Section(
        "pairs",
        "FedIC and ProtoNorm, two classes a device of CIFAR-10",
        (*papers.FEDIC_CIFAR_PAIRS, *papers.PROTONORM_PAIRS),
        own_means=True,
    ),
    Section(
        "spiral",
        "ProtoNorm and FedProto on the spiral",
        papers.SPIRALS,
        SPIRAL_READINGS,
        picture="maps",
    ),
    Section(
        "classes",
        "FedMPS by classes a device",
        (*sweeps.THREE, *sweeps.CLASSES),
        CLASSES_READINGS,
    ),
    Section(
        "settings",
        "FedMPS by spread, clients and temperatures",
        (*sweeps.SPREADS, *sweeps.CLIENTS, *sweeps.TEMPERATURES),
        picture="none",
    ),
    Section("components", "GFPL's components, CIFAR-10", sweeps.COMPONENTS),
    Section(
        "gfpl-settings",
        "GFPL's settings and its baseline, MNIST",
        sweeps.GFPL_SWEEPS,
        GFPL_BOUNDS,
        picture="none",
    ),
    Section(
        "variants",
        "MP-FedCL's variants, MNIST",
        sweeps.MPFEDCL_SWEEPS,
        VARIANT_READINGS,
        picture="none",
    ),
    Section(
        "clients", "MP-FedCL by number of clients, MNIST", sweeps.MPFEDCL_CLIENTS, picture="none"
    ),
    Section(
        "norm-settings",
        "ProtoNorm's settings and margins",
        (*sweeps.PROTONORM_SWEEPS, *sweeps.PROTONORM_MARGINS),
        picture="none",
        own_means=True,
    ),
    Section("fedic-settings", "FedIC's clusters, parts and clients", sweeps.FEDIC_SWEEPS),
    Section("speed", "Whether running faster changes what comes out", sweeps.SPEED, picture="none"),
)


def every_cell() -> dict[str, Cell]:
    """All cells of the page by name."""
    return {cell.name: cell for section in SECTIONS for cell in (*section.cells, *section.readings)}
