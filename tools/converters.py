"""Bundles in other people's runtimes, and how right they are there: `make converters`.

`write` trains five small networks by short runs of the laboratory, exports each in every precision,
and keeps 1,000 test samples with the classes that our own runtime gives. `openvino` reads the very
`model.onnx` of each. `tflite` runs in an environment of its own, where onnx2tf and TensorFlow are:
it converts each `fixed.onnx` and runs what comes of it. `table` prints all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUT = Path(__file__).resolve().parents[1] / "build" / "converters"
NETWORKS = {
    "cnn4": "fashion-mnist",
    "lenet": "cifar10",
    "resnet8": "cifar10",
    "mobilenet_v3_small": "cifar10",
    "shufflenet_v2_x0_5": "cifar10",
}
# Few rounds: what is compared is runtimes, not methods.
RUN = ["--method", "fedproto", "--agents", "2", "--partition", "iid", "--rounds", "3"]
RUN += ["--limit", "6000"]
PRECISIONS = ("fp32", "fp16", "int8")
SAMPLES = 1000
# What onnx2tf would fetch to look at its own work with.
CALIBRATION = "calibration_image_sample_data_20x128x128x3_float32.npy"

Inputs = Mapping[str, NDArray[Any]]
Scored = Callable[[NDArray[Any]], NDArray[Any]]


def write() -> None:
    """Networks, bundles, samples and our own answers."""
    from edge_agent.data.sets import load
    from edge_agent.inference.classifier import Classifier
    from export.verify import scores

    data = Path(os.environ["PROTOFLEET_DATA"])
    for network, dataset in NETWORKS.items():
        run = OUT / network / "run"
        if not run.exists():
            words = ["--backbone", network, "--dataset", dataset, "--out", str(run)]
            protofleet("simulate", *RUN, *words)
        samples = load(dataset, data_dir=data)
        x, y = (part[samples.n_train :][:SAMPLES] for part in (samples.x, samples.y))
        for precision in PRECISIONS:
            folder = OUT / network / precision
            form = ["--precision", precision, "--smallest", "--also", "fixed", "--by", "prototype"]
            protofleet("export", "--from", str(run), "--out", str(folder), *form)
            ready = (classifier := Classifier(folder)).loaded.ready
            score = scores((folder / "model.onnx").read_bytes(), x, ready.inputs)[0]
            del classifier
            of = {"x": x, "y": y, "rows": ready.rows, "score": score, **ready.inputs}
            np.savez(OUT / network / f"{precision}.npz", **of)


def protofleet(*words: str) -> None:
    """One command of ours."""
    command = [sys.executable, "-m", "protofleet", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def openvino() -> None:
    """Each graph as it is in a bundle, any number of samples at a time."""
    import openvino

    core = openvino.Core()
    for name, folder, inputs in forms():
        # In half precision, too: what the processor would choose differs from one to the next.
        compiled = core.compile_model(
            core.read_model(folder / "model.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )

        def scored(
            x: NDArray[Any], compiled: Any = compiled, inputs: Inputs = inputs
        ) -> NDArray[Any]:
            return np.concatenate(
                [
                    compiled({"image": x[i : i + 100], **inputs})["score"]
                    for i in range(0, len(x), 100)
                ]
            )

        note(f"OpenVINO {openvino.__version__.split('-')[0]}", name, scored)


def tflite() -> None:
    """Each graph of fixed sizes through onnx2tf, one sample at a time."""
    import onnx2tf
    import tensorflow

    for name, folder, inputs in forms():
        work = folder.parent / f"{folder.name}-tflite"
        work.mkdir(exist_ok=True)
        os.chdir(work)
        shape = (20, 128, 128, 3)
        np.save(CALIBRATION, np.random.default_rng(0).random(shape, np.float32))
        try:
            onnx2tf.convert(
                input_onnx_file_path=str(folder / "fixed.onnx"),
                output_folder_path=str(work),
                # They are as TensorFlow has them: images channels last, points as they are.
                keep_shape_absolutely_input_names=["image", *inputs],
                non_verbose=True,
            )
        except (Exception, SystemExit) as error:
            refused(f"TFLite {tensorflow.__version__}", name, error)
            continue
        live = tensorflow.lite.Interpreter(str(work / "fixed_float32.tflite"), num_threads=1)
        runner = live.get_signature_runner() if live.get_signature_list() else None
        scored = by_signature(runner, inputs) if runner else by_name(live, inputs)
        note(f"TFLite, TensorFlow {tensorflow.__version__}", name, scored)


def by_signature(runner: Any, inputs: Inputs) -> Scored:
    """Where the file names its inputs and outputs."""

    def scored(x: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([runner(image=one[None], **inputs)["score"] for one in x])

    return scored


def by_name(live: Any, inputs: Inputs) -> Scored:
    """Where only its tensors have names."""
    live.allocate_tensors()
    at = {
        one["name"].split(":")[0].removeprefix("serving_default_"): one["index"]
        for one in live.get_input_details()
    }
    points = next(iter(inputs.values())).shape[1]
    (out,) = [one["index"] for one in live.get_output_details() if one["shape"][-1] == points]

    def scored(x: NDArray[Any]) -> NDArray[Any]:
        rows = []
        for one in x:
            for name, value in {"image": one[None], **inputs}.items():
                live.set_tensor(at[name], value)
            live.invoke()
            rows.append(live.get_tensor(out))
        return np.concatenate(rows)

    return scored


def forms() -> Iterator[tuple[str, Path, dict[str, NDArray[Any]]]]:
    """Every network in every precision, its bundle's folder and its points."""
    for network in NETWORKS:
        for precision in PRECISIONS:
            with np.load(OUT / network / f"{precision}.npz") as stored:
                inputs = {name: stored[name] for name in stored.files if name.startswith("proto_")}
            yield f"{network}/{precision}", OUT / network / precision, inputs


def note(runtime: str, name: str, scored: Scored) -> None:
    """How it did on the samples, kept beside the bundle."""
    with np.load(OUT / f"{name}.npz") as stored:
        x, y, rows, due = (stored[key] for key in ("x", "y", "rows", "score"))
    began = time.process_time()
    score = scored(x)
    ours, theirs = rows[due.argmax(1)], rows[score.argmax(1)]
    row = {
        "runtime": runtime,
        "form": name,
        "ours": float((ours == y).mean()),
        "theirs": float((theirs == y).mean()),
        "same": float((ours == theirs).mean()),
        "difference": float(np.abs(score - due).max() / np.abs(due).max()),
        "ms": 1e3 * (time.process_time() - began) / len(x),
    }
    keep(runtime, name, row)


def refused(runtime: str, name: str, error: BaseException) -> None:
    """What could not be converted, and in which words."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    keep(runtime, name, {"runtime": runtime, "form": name, "refused": words})


def keep(runtime: str, name: str, row: Mapping[str, Any]) -> None:
    """One result."""
    kind = runtime.partition(",")[0].partition(" ")[0].lower()
    file = OUT / f"{name.replace('/', '-')}-{kind}.json"
    file.write_text(json.dumps(row, indent=1))
    print(json.dumps(row), flush=True)


def table() -> None:
    """All results as docs/runtimes.md has them."""
    print("| runtime | network | precision | ours | theirs | same class | difference |")
    print("|---|---|---|---|---|---|---|")
    for file in sorted(OUT.glob("*.json"), key=lambda path: path.stem.split("-")[::-1]):
        row = json.loads(file.read_text())
        network, precision = row["form"].split("/")
        if "refused" in row:
            print(f"| {row['runtime']} | {network} | {precision} | | {row['refused']} | | |")
            continue
        shares = " | ".join(f"{100 * row[name]:.1f} %" for name in ("ours", "theirs", "same"))
        print(
            f"| {row['runtime']} | {network} | {precision} | {shares} | {row['difference']:.1e} |"
        )


if __name__ == "__main__":
    steps = {"write": write, "openvino": openvino, "tflite": tflite, "table": table}
    OUT.mkdir(parents=True, exist_ok=True)
    for word in sys.argv[1:]:
        steps[word]()
