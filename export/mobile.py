"""`.ort` for reduced builds of onnxruntime: the graph, the operators to build with, and what phones
can run of it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from pathlib import Path

from edge_agent.inference.session import runtime


def to_ort(model: bytes) -> dict[str, bytes]:
    """`model.ort`, `operators.config` for `--include_ops_by_config`, and the usability report
    `mobile.txt`.
    """
    runtime()
    from onnxruntime.tools.convert_onnx_models_to_ort import (
        OptimizationStyle,
        convert_onnx_models_to_ort,
    )
    from onnxruntime.tools.mobile_helpers.usability_checker import analyze_model

    report = io.StringIO()
    # The checker says what it finds to a logger and to stdout, which is a command's JSON.
    log = logging.getLogger("protofleet.mobile")
    log.setLevel(logging.INFO)
    log.propagate = False
    handler = logging.StreamHandler(report)
    log.addHandler(handler)
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model)
        convert_onnx_models_to_ort(
            folder, output_dir=folder / "out", optimization_styles=[OptimizationStyle.Fixed]
        )
        analyze_model(folder / "model.onnx", skip_optimize=True, logger=log)
        log.removeHandler(handler)
        operators = next((folder / "out").glob("*.config"))
        # Without comments and folders of this machine: the same graph gives the same bytes.
        words = report.getvalue().replace(name, "")
        lines = [line for line in operators.read_text().splitlines() if not line.startswith("#")]
        return {
            "model.ort": (folder / "out" / "model.ort").read_bytes(),
            "operators.config": ("\n".join(lines) + "\n").encode(),
            "mobile.txt": words.encode(),
        }
