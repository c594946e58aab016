"""`.ort` for reduced builds of onnxruntime: the graph, the operators to build with, and what phones
can run of it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edge_agent.inference.session import runtime


def to_ort(model: bytes, fixed: bytes | None = None) -> dict[str, bytes]:
    """`model.ort`, `operators.config` for `--include_ops_by_config`, and the usability report
    `mobile.txt`; that is of the form of fixed sizes where there is one, which phones can take more
    of.
    """
    runtime()
    from onnxruntime.tools.mobile_helpers.usability_checker import analyze_model
    from onnxruntime.tools.ort_format_model import create_config_from_models

    report = io.StringIO()
    # The checker says what it finds to a logger and to stdout, which is a command's JSON.
    log = logging.getLogger("protofleet.mobile")
    log.setLevel(logging.INFO)
    log.propagate = False
    handler = logging.StreamHandler(report)
    log.addHandler(handler)
    with _quiet(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        converted, operators = folder / "model.ort", folder / "operators.config"
        _convert(model, converted)
        create_config_from_models([converted], operators, False)
        of = folder / ("model.onnx" if fixed is None else "fixed.onnx")
        of.write_bytes(fixed or model)
        analyze_model(of, skip_optimize=True, logger=log)
        log.removeHandler(handler)
        # Without comments and folders of this machine: the same graph gives the same bytes.
        words = report.getvalue().replace(name, "")
        lines = [line for line in operators.read_text().splitlines() if not line.startswith("#")]
        return {
            "model.ort": in_one_order(converted.read_bytes()),
            "operators.config": ("\n".join(lines) + "\n").encode(),
            "mobile.txt": words.encode(),
        }


def _convert(model: bytes, out: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Beyond this level the optimiser puts operators of its own (FusedConv, QLinearConv, QuickGelu)
    # in the place of the standard's, and a file could not be run without them. An optimised build
    # that has them cannot put them into an `.ort` either: what is fast in int8 is `model.onnx`.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(out)
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The checker says to stdout and to everybody what it does."""
    notes = logging.getLogger("ort_format_model.utils")
    before, level = notes.level, logging.WARNING
    notes.setLevel(level)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        notes.setLevel(before)


def in_one_order(ort: bytes) -> bytes:
    """The same file, its list of kernels by name: onnxruntime writes it in the order of a hash
    table, which differs from call to call, and the same graph shall have the same hash.
    """
    import flatbuffers
    from ort_flatbuffers_py.fbs import ArgTypeAndIndex as Arg
    from ort_flatbuffers_py.fbs import InferenceSession as Session
    from ort_flatbuffers_py.fbs import KernelTypeStrArgsEntry as Strings
    from ort_flatbuffers_py.fbs import KernelTypeStrResolver as Kernels
    from ort_flatbuffers_py.fbs import OpIdKernelTypeStrArgsEntry as Kernel

    session = Session.InferenceSession.GetRootAs(bytearray(ort), 0)
    # A flatbuffer is written from its end: the model first, then the kernels, the root last. So the
    # model and all that belongs to it is the file's tail, and what lies before is written anew.
    table = session.Model()._tab
    start = min(table.Pos, table.Pos - int.from_bytes(ort[table.Pos :][:4], "little", signed=True))
    new = flatbuffers.Builder(2 * len(ort))
    new.head = len(new.Bytes) - (len(ort) - start)
    new.Bytes[new.head :] = ort[start:]
    new.minalign = min(64, len(ort) & -len(ort))  # at least what the tail was aligned to
    model = len(ort) - table.Pos  # offsets count from the end

    def vector(begin: Any, items: list[int]) -> int:
        begin(new, len(items))
        for item in reversed(items):
            new.PrependUOffsetTRelative(item)
        return int(new.EndVector())

    def strings(of: Any) -> int:
        args = []
        for arg in sorted(_all(of.Args, of.ArgsLength()), key=lambda a: (a.ArgType(), a.Index())):
            Arg.Start(new)
            Arg.AddArgType(new, arg.ArgType())
            Arg.AddIndex(new, arg.Index())
            args.append(int(Arg.End(new)))
        name, every = new.CreateString(of.KernelTypeStr()), vector(Strings.StartArgsVector, args)
        Strings.Start(new)
        Strings.AddKernelTypeStr(new, name)
        Strings.AddArgs(new, every)
        return int(Strings.End(new))

    def kernel(of: Any) -> int:
        whole = _all(of.KernelTypeStrArgs, of.KernelTypeStrArgsLength())
        parts = [strings(one) for one in sorted(whole, key=lambda one: one.KernelTypeStr())]
        name, every = (
            new.CreateString(of.OpId()),
            vector(Kernel.StartKernelTypeStrArgsVector, parts),
        )
        Kernel.Start(new)
        Kernel.AddOpId(new, name)
        Kernel.AddKernelTypeStrArgs(new, every)
        return int(Kernel.End(new))

    old = session.KernelTypeStrResolver()
    listed = _all(old.OpKernelTypeStrArgs, old.OpKernelTypeStrArgsLength())
    every = [kernel(one) for one in sorted(listed, key=lambda one: one.OpId())]
    of_all = vector(Kernels.StartOpKernelTypeStrArgsVector, every)
    Kernels.Start(new)
    Kernels.AddOpKernelTypeStrArgs(new, of_all)
    kernels, version = Kernels.End(new), new.CreateString(session.OrtVersion())
    Session.Start(new)
    Session.AddOrtVersion(new, version)
    Session.AddModel(new, model)
    Session.AddKernelTypeStrResolver(new, kernels)
    new.Finish(Session.End(new), file_identifier=ort[4:8])
    return bytes(new.Output())


def _all(at: Callable[[int], Any], number: int) -> list[Any]:
    return [at(i) for i in range(number)]
