"""What is written, and what is not."""

import shutil
import zipfile

import numpy as np
import onnx
import pytest

from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.errors import UsageError
from protofleet.recipe import Linear
from tests.bundles import device


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
