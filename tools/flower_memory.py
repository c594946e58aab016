"""A thousand devices in Flower's simulation, as `protofleet bench lab --engine ray --only thousand`
has them: what all processes hold in memory, and how long three rounds take.

Flower wants another protobuf than we do, so it has an environment of its own:

    python -m venv build/flower
    build/flower/bin/pip install "flwr[simulation]" torch
    PROTOFLEET_DATA=… build/flower/bin/python tools/flower_memory.py

The same samples a device, network, steps and averaging as ours; not the same bits: which images a
device has is drawn otherwise. Flower's devices are given the images as one array on disk, which all
its processes map. It evaluates nothing here; ours evaluates all devices after the last round.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
AGENTS, SAMPLES, BATCH, ROUNDS = 1000, 42, 20, 3


def network() -> Any:
    """Our LeNet for MNIST, with its classifier."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()),
        nn.Linear(84, 10),
    )


def client(images: Path) -> Any:
    """What a device does with the weights that it is given."""
    import numpy as np
    import torch
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        first = int(context.node_config["partition-id"]) * SAMPLES
        x = np.load(images / "x.npy", mmap_mode="r")[first : first + SAMPLES]
        y = torch.from_numpy(np.load(images / "y.npy")[first : first + SAMPLES].astype(np.int64))
        inputs = torch.from_numpy(np.ascontiguousarray(x)).float().div(255).sub(0.5).div(0.5)
        net = network()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
        for rows in torch.randperm(SAMPLES).split(BATCH):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(inputs[rows][:, None]), y[rows])
            loss.backward()
            optimiser.step()
        content = RecordDict(
            {
                "arrays": ArrayRecord(net.state_dict()),
                "metrics": MetricRecord({"num-examples": SAMPLES}),
            }
        )
        return Message(content=content, reply_to=message)

    return app


def server() -> Any:
    """Averages them."""
    from flwr.app import ArrayRecord, Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=AGENTS)
        arrays = ArrayRecord(network().state_dict())
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=ROUNDS)

    return app


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="one process each")
    words = parser.parse_args()

    import numpy as np
    import ray
    from flwr import __version__
    from flwr.simulation import run_simulation

    from simulators.scale.footprint import watched_memory

    watching = watched_memory(os.getpid(), "/ray/session_")
    with tempfile.TemporaryDirectory() as folder, watching as most:
        data = np.load(Path(os.environ["PROTOFLEET_DATA"]) / "mnist.npz")
        for name in ("x", "y"):
            np.save(Path(folder) / f"{name}.npy", data[f"{name}_train"][: AGENTS * SAMPLES])
        del data
        began = time.perf_counter()
        run_simulation(
            server(),
            client(Path(folder)),
            num_supernodes=AGENTS,
            backend_config={
                "init_args": {"num_cpus": words.cores, "include_dashboard": False},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
        seconds = time.perf_counter() - began
    versions = {"flwr": __version__, "ray": ray.__version__}
    print(
        json.dumps(
            {
                **versions,
                "seconds": round(seconds, 1),
                "memory_mb": round(most.bytes / 1e6),
                "processes": most.processes,
            }
        )
    )


if __name__ == "__main__":
    main()
