"""A process that classifies, from its start to its first answer: memory and CPU, beside the same
with torch.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edge_agent.inference.bundle import Reading
from edge_agent.inference.inputs import ready
from edge_agent.networks.net import build_net
from export import graph, verify, writer
from simulators.speed.device import (
    EMBEDDING,
    NETS,
    Say,
    bank_of,
    contract_of,
    lively,
    pictures,
    points_of,
    source_of,
)

OURS = """
import sys
from pathlib import Path
from edge_agent.inference.classifier import Classifier
import resource, numpy as np
x = np.load(sys.argv[2])
classifier = Classifier(Path(sys.argv[1]))
classifier.classify(x)
assert "torch" not in sys.modules
"""
TORCH = """
import resource, sys, numpy as np, torch
torch.set_num_threads(1)
x = np.load(sys.argv[2])
net = torch.jit.load(sys.argv[1] + "/net.pt")
prototypes = torch.from_numpy(np.load(sys.argv[1] + "/prototypes.npy"))
with torch.inference_mode():
    f = net(torch.from_numpy(x))
    torch.cdist(f, prototypes).argmin(1)
"""
OWN = """
import resource, sys, numpy as np, torch
torch.set_num_threads(1)
from edge_agent.networks.net import build_net
from protofleet.contract import Contract, Input
x = np.load(sys.argv[2])
kind = Input("image", (96, 96, 3), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
contract = Contract("b", "d", 1, tuple("abcdefghij"), kind, 128)
net = build_net(contract, "mobilenet_v3_small", {}, 1).eval()
net.load_state_dict(torch.load(sys.argv[1] + "/weights.pt", weights_only=True))
prototypes = torch.from_numpy(np.load(sys.argv[1] + "/prototypes.npy"))
with torch.inference_mode():
    mean, std = (torch.tensor(each).view(1, -1, 1, 1) for each in (kind.mean, kind.std))
    f = net.features((torch.from_numpy(x).permute(0, 3, 1, 2).float() / 255 - mean) / std)[1]
    torch.cdist(f, prototypes).argmin(1)
"""
ASKED = """
import json
used = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss: a child that was started by vfork inherits its parent's.
status = open("/proc/self/status").read().splitlines()
resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
print(json.dumps([resident / 1024, used.ru_utime + used.ru_stime]))
"""


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Process:
    """A process that starts, loads a model and classifies one image: median memory, least CPU of
    some starts.
    """

    name: str
    rss_mb: float
    cpu_seconds: float


def processes(repeats: int, say: Say) -> list[Process]:
    """Ours, one with torch alone, and one of nothing but Python and numpy."""
    kind = NETS["mobilenet_v3_small"]
    net = lively(build_net(contract_of(kind), "mobilenet_v3_small", {}, 1), kind)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        np.save(folder / "x.npy", pictures(kind, 1))
        module = graph.Embedder(net, kind, Reading("prototypes"))
        _, features = verify.by_torch(
            graph.classifying(net, kind, Reading("prototypes")),
            pictures(kind, 64),
            ready(
                bank_of(points_of(np.zeros((1, EMBEDDING), np.float32), 10, 1), 10),
                Reading("prototypes"),
            ).inputs,
        )
        writer.write(
            writer.export(source_of(net, "mobilenet_v3_small", kind, features), writer.Wanted()),
            folder / "b",
        )
        with torch.no_grad():
            torch.jit.trace(  # type: ignore[no-untyped-call]
                module, torch.from_numpy(pictures(kind, 1))
            ).save(str(folder / "net.pt"))
        np.save(folder / "prototypes.npy", features[:10])
        torch.save(net.state_dict(), folder / "weights.pt")
        codes: dict[str, tuple[str, Path, Mapping[str, str]]] = {
            "numpy and onnxruntime (ours)": (OURS, folder / "b", {}),
            "torch, a traced network": (TORCH, folder, {}),
            "torch, the same, told one thread before": (TORCH, folder, ONE_THREAD),
            "torch, as the training agent does": (OWN, folder, {}),
            "Python and numpy alone": ("import resource, sys, numpy", folder, ONE_THREAD),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in codes}
        # Modules compiled as an installation leaves them, for all alike; the first start compiles.
        # Threads as each has them when nobody says: ours tells numpy's algebra to have one before
        # it imports it.
        mine = {
            n: v for n, v in os.environ.items() if n not in {"PYTHONDONTWRITEBYTECODE", *ONE_THREAD}
        }
        mine |= {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        for i in range(repeats + 1):
            say(f"start {i} of {repeats}")
            for name, (code, where, more) in codes.items():
                command = [sys.executable, "-c", code + ASKED, str(where), str(folder / "x.npy")]
                run = subprocess.run(
                    command, capture_output=True, text=True, check=True, env={**mine, **more}
                )
                rss, cpu = json.loads(run.stdout)
                if i:
                    measured[name].append((rss, cpu))
    return [
        Process(name, statistics.median(r for r, _ in rows), min(c for _, c in rows))
        for name, rows in measured.items()
    ]


def tables(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The three tables for people."""
    lines = (
        ["One thread, CPU milliseconds a call, the fastest of interleaved blocks"]
        if "cost" in rows
        else []
    )
    lines += [
        f"{row['what']:<72}{row['ours']:>9.4f}{row['beside']:>9.3f}"
        f"{row['ratio']:>9.4f}  {row['target']}"
        for row in rows.get("cost", ())
    ]
    if "process" in rows:
        torch_row = next(row for row in rows["process"] if row["name"].startswith("torch, a "))
        lines += [
            "",
            f"{'A process from start to first answer':<42}"
            f"{'RSS MB':>8}{'of torch':>10}{'CPU s':>8}{'of torch':>10}",
        ]
        for row in rows["process"]:
            rss, cpu = (
                row["rss_mb"] / torch_row["rss_mb"],
                row["cpu_seconds"] / torch_row["cpu_seconds"],
            )
            lines.append(
                f"{row['name']:<42}{row['rss_mb']:>8.1f}{rss:>10.3f}"
                f"{row['cpu_seconds']:>8.3f}{cpu:>10.3f}"
            )
    if "agree" in rows:
        lines += [
            "",
            f"{'Largest difference to torch':<42}"
            f"{'before':>10}{'after swap':>12}  same class where clear",
        ]
        for row in rows["agree"]:
            same = "all" if row["same_class"] else "NOT ALL"
            lines.append(
                f"{row['net']:<42}{row['before']:>10.1e}{row['after']:>12.1e}"
                f"  {same} of {row['samples']}"
            )
    return lines
