"""`protofleet export`: a run's device as a bundle and its report."""

import json

from click.testing import CliRunner

from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from export.cli.export_cmd import export, lines


def called(*words):
    outcome = CliRunner().invoke(export, [str(word) for word in words], standalone_mode=False)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.output


def test_a_runs_device_is_written_and_the_report_is_one_document(lab_run, tmp_path):
    folder, _ = lab_run
    document = json.loads(
        called("--from", folder, "--agent", "agent-01", "--out", tmp_path / "b.pfb", "--json")
    )
    bundle = open_bundle(tmp_path / "b.pfb")
    assert (document["out"], document["digest"]) == (str(tmp_path / "b.pfb"), bundle.digest)
    assert document["report"]["fp32"]["agreement_clear"] == 1
    assert (bundle.manifest.method, bundle.manifest.round) == ("fedproto", 2)
    assert Classifier(bundle).loaded.bank.points == bundle.published.bank.points


def test_the_report_is_a_line_a_precision_and_what_was_kept(lab_run, tmp_path):
    folder, _ = lab_run
    called("--from", folder, "--out", tmp_path / "b")
    manifest = open_bundle(tmp_path / "b").manifest
    row = {"bytes": 12345, "milliseconds": 0.25, "difference": 2e-7, "agreement": 1.0}
    full, small = row | {"accuracy_after": 0.9}, row | {"accuracy_after": None}
    report = {"fp32": full, "int8": small, "kept": "fp32: int8 is not faster here"}
    *_, unmeasured, _ = lines(manifest, report, "b", "ab" * 32)
    assert unmeasured.startswith("accuracy not measured")
    report |= {"took": "agent-01 of 2", "measured": "7 samples that no device held"}
    first, _, of_full, of_small, kept, took, on, last = lines(manifest, report, "b", "ab" * 32)
    assert (took, on) == (
        "network of agent-01 of 2",
        "accuracy on 7 samples that no device held, of any class",
    )
    assert first == "b: mlp, fedproto round 2, fp32, abababababababab"
    assert of_full == "fp32        12,345    0.250     2.0e-07    100.00 %   90.00 %"
    assert of_small == "int8        12,345    0.250     2.0e-07    100.00 %          "
    assert kept == "kept fp32: int8 is not faster here"
    assert last == f"classifies by prototypes, lineage {manifest.lineages[0]}"
