"""`protofleet bench attacks` on digits, in the suite's short form."""

import json

from click.testing import CliRunner

from simulators.cli.bench_attacks_cmd import attacks

SHORT = ["--data", "digits", "--images", "700", "--rounds", "1", "--steps", "30"]
FEW = ["--methods", "fedproto,fedavg", "--public", "300", "--uploads", "10", "--upload-steps", "60"]


def test_people_get_tables_and_the_page_a_file(tmp_path):
    path = tmp_path / "attacks.json"
    words = [*SHORT, *FEW, "--keep", str(path)]
    run = CliRunner().invoke(attacks, words, catch_exceptions=False)
    for title in ("decoder, digits", "membership, digits", "difference, digits", "Hijacking"):
        assert title in run.stdout
    assert "| 1 | 5 | open | silent | – |" in run.stdout
    document = json.loads(path.read_text())
    methods = document["hijack"]["digits"]["0"]
    assert methods["fedproto"]["public"] == 300
    assert methods["fedavg"] is None


def test_programs_get_one_document():
    words = [*SHORT, "--attack", "membership", "--json"]
    run = CliRunner().invoke(attacks, words, catch_exceptions=False)
    rows = json.loads(run.stdout)["uploads"]["digits"]["0"]["membership"]["rows"]
    assert {row["defences"]["covariance"] for row in rows} == {"open", "off"}


def test_an_attack_that_there_is_not_is_refused():
    assert CliRunner().invoke(attacks, ["--attack", "charm"]).exit_code == 2
