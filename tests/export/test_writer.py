"""What is written, and what is not."""

import json
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import pytest

from edge_agent.inference.bundle import Reading
from export import graph, verify
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.errors import UsageError
from protofleet.exchange import published
from protofleet.recipe import ByHead, Linear
from protofleet.settings.fields import from_plain
from protofleet.statistics.reliability import Calibration
from tests.bundles import device
from tests.knowing import knowing


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype"))


def test_a_folder_and_a_file_are_the_same_bundle(made, tmp_path):
    folder, packed = write(made, tmp_path / "b"), write(made, tmp_path / "b.pfb")
    assert folder.digest == packed.digest
    assert folder.files == packed.files
    assert zipfile.is_zipfile(tmp_path / "b.pfb")


def test_its_prototypes_are_a_message_of_the_fleet(made):
    message = wire.decode(made.files["prototypes.cbor"])
    assert message.envelope.t == "global"
    assert message.digest == made.manifest.state


def test_nobodys_pictures_are_in_it(made):
    source = device()
    with np.load(__import__("io").BytesIO(made.files["selftest.npz"])) as vectors:
        assert len(vectors["image"]) >= 16
        flat = {each.tobytes() for each in source.check.x} | {
            each.tobytes() for each in source.calibration.x
        }
        assert not any(each.tobytes() in flat for each in vectors["image"])


def test_another_folder_is_not_overwritten(made, tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(UsageError, match="holds no bundle"):
        write(made, tmp_path)
    write(made, tmp_path / "b")
    write(made, tmp_path / "b")
    shutil.rmtree(tmp_path / "b")


def test_a_fleets_own_head_brings_how_sure_it_is_and_keeps_its_digits():
    source = device()
    x = verify.by_torch(
        graph.classifying(source.net, source.contract.input, Reading("prototypes")),
        source.calibration.x,
        {"proto_w": np.zeros((24, 1), np.float32), "proto_b": np.zeros(1, np.float32)},
    )[1]
    bank = knowing("l", source.contract.classes, [(x, source.calibration.y)])
    sure = bank.about.calibration
    trained = replace(source, scorers={"prototype": ByHead(rows=bank.points)}, sure=sure)
    made = export(trained, Wanted(also=("raw",)))
    shipped = published.read(made.files["prototypes.cbor"]).bank
    assert shipped.about.calibration == sure
    assert np.array_equal(shipped.points.weight, bank.points.weight)
    document = json.loads(made.files["rows.json"])
    assert from_plain(Calibration, document["calibration"]) == sure


@pytest.fixture(scope="module")
def source():
    return device(extras={"through": Linear(12)}, hidden=(16,))


def test_int8_is_only_kept_where_it_is_faster():
    made = export(device(), Wanted(precision="int8"))
    faster = made.report["int8"]["milliseconds"] < made.report["fp32"]["milliseconds"]
    assert made.manifest.precision == ("int8" if faster else "fp32")
    assert ("kept" in made.report) is not faster


def test_the_graph_repeats_the_essentials(source):
    made = export(source, Wanted())
    model = onnx.load_from_string(made.files["model.onnx"])
    notes = {each.key: each.value for each in model.metadata_props}
    assert notes["protofleet.lineage"] == made.manifest.lineages[0]
    assert notes["protofleet.state"] == made.manifest.state
