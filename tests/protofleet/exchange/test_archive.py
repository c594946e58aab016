"""A bundle's files are read back as they were packed, or not at all."""

import json
from contextlib import suppress
from hashlib import sha256

import pytest

from protofleet.exchange import archive
from protofleet.exchange.archive import MANIFEST, MODEL, PROTOTYPES, SCHEMA, SELFTEST, BundleError

FILES = {MODEL: b"model", PROTOTYPES: b"points" * 1000, SELFTEST: b"test"}


def manifest(files=FILES, **changes) -> bytes:
    hashes = {name: sha256(data).hexdigest() for name, data in files.items()}
    return json.dumps({"schema": SCHEMA, "files": hashes, **changes}).encode()


def packed(files=FILES, **changes) -> bytes:
    return archive.pack({MANIFEST: manifest(files, **changes), **files})


def test_a_folder_and_a_file_hold_the_same(tmp_path):
    for name, data in {MANIFEST: manifest(), **FILES}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "b.pfb").write_bytes(packed())
    whole = archive.read(tmp_path)
    assert whole.files == FILES
    assert whole.digest == sha256(manifest()).hexdigest()
    for other in (archive.read(tmp_path / "b.pfb"), archive.unpack(packed(), "b")):
        assert (other.files, other.digest, other.document) == (
            whole.files,
            whole.digest,
            whole.document,
        )
    assert archive.packed_bytes(tmp_path) == archive.packed_bytes(tmp_path / "b.pfb") == packed()
    assert archive.name_of(tmp_path / "b.pfb") == whole.digest
    assert archive.name_of(tmp_path / "none.pfb") == ""


def test_equal_files_are_equal_bytes():
    assert packed() == packed()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a .pfb file"),
        (packed()[:-30], "not a .pfb file"),
        (archive.pack(FILES), "not a .pfb file"),
        (archive.pack({MANIFEST: b"[", **FILES}), "manifest.json: not JSON"),
        (archive.pack({MANIFEST: b"[" * 100_000, **FILES}), "manifest.json: not JSON"),
        (packed(schema="protofleet-bundle/2"), "schema 'protofleet-bundle/2' is not known here"),
        (
            archive.pack({MANIFEST: b'{"schema": "%s", "files": [1]}' % SCHEMA.encode()}),
            "files with their hashes are due",
        ),
        (packed({MODEL: b"x"}), "it names no prototypes.cbor"),
        (packed({**FILES, "../x": b""}), "'../x' is no file name of a bundle"),
        (packed({**FILES, ".hidden": b""}), "'.hidden' is no file name of a bundle"),
        (archive.pack({MANIFEST: manifest(), **FILES, MODEL: b"x"}), "model.onnx is damaged"),
    ],
)
def test_what_is_no_bundle_is_refused_in_words(data, words):
    with pytest.raises(BundleError, match=words):
        archive.unpack(data, "it")


def test_wherever_a_byte_is_wrong_it_is_no_bundle():
    data = packed()
    whole = archive.unpack(data, "it").files
    for at in range(0, len(data), 7):
        broken = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        with suppress(BundleError):
            assert archive.unpack(broken, "it").files == whole  # a date, say: nothing of ours


def test_a_file_that_would_unpack_to_more_than_any_bundle_is_not_unpacked():
    data = archive.pack({MANIFEST: manifest(), **FILES, PROTOTYPES: bytes(100 << 20)})
    with pytest.raises(BundleError, match="bytes that unpack to"):
        archive.unpack(data, "it")


def test_a_manifest_that_is_no_manifest_in_size_is_not_read():
    data = archive.pack({MANIFEST: manifest(further=" " * (5 << 20)), **FILES})
    with pytest.raises(BundleError, match=r"manifest\.json holds"):
        archive.unpack(data, "it")
    many = packed({**FILES, **{f"x{n}": b"" for n in range(80)}})
    with pytest.raises(BundleError, match="84 entries"):
        archive.unpack(many, "it")


def test_a_folder_without_its_files_says_which(tmp_path):
    with pytest.raises(BundleError, match=r"manifest\.json is missing"):
        archive.read(tmp_path)
    (tmp_path / MANIFEST).write_bytes(manifest())
    with pytest.raises(BundleError, match=r"model\.onnx is missing"):
        archive.read(tmp_path)
