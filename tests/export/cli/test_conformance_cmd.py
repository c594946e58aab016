"""`protofleet conformance`: a folder written, answered and checked."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from export.cli.conformance_cmd import conformance
from export.conformance.document import read
from protofleet.errors import UsageError
from tests.networks import extractor_bundle, pictures


def called(*words):
    run = CliRunner().invoke(conformance, [str(word) for word in words])
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    return run.exit_code, run.stdout


def test_it_writes_answers_and_checks(tmp_path):
    bundle = extractor_bundle(tmp_path / "b")
    (tmp_path / "photos").mkdir()
    Image.fromarray(pictures(3, 1, 64)[0]).save(tmp_path / "photos" / "a.png")
    folder, file = tmp_path / "folder", tmp_path / "answers.json"
    how = ["--bundle", tmp_path / "b", "--photos", tmp_path / "photos", "--out", folder]
    assert called("write", *how)[0] == 0
    assert read(folder)["bundle"] == bundle.digest
    with pytest.raises(UsageError, match="is not empty"):
        called("write", *how)
    file.write_text(called("answer", folder)[1])
    code, words = called("check", folder, file)
    assert (code, "answers agree" in words) == (0, True)
    answers = json.loads(file.read_text())
    answers["states"][-1]["answers"][0]["label"] = "x"
    file.write_text(json.dumps(answers))
    assert called("check", folder, file)[1].endswith(
        f"1 differences in {words.split()[0]} answers\n"
    )
    code, words = called("check", folder, file, "--json")
    assert (code, len(json.loads(words)["differences"])) == (1, 1)
