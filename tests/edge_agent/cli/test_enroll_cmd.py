"""`edge-agent enroll` and `edge-agent forget`, as a person calls them."""

import json
import subprocess
import sys

import click
from click.testing import CliRunner

from edge_agent.cli.infer_cmd import broker_options
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from tests.edge_agent.classifying import nines
from tests.networks import extractor_bundle, pictures


def test_the_commands(place, tmp_path):
    from PIL import Image

    for i, image in enumerate(nines()):
        Image.fromarray(image[..., 0]).save(tmp_path / f"{i}.png")

    def run(*words):
        command = [sys.executable, "-m", "edge_agent", *words, "--bundle", str(place)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("enroll", "--label", "9", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "in use on this device" in done.stdout
    seen = json.loads(
        run("infer", *(str(tmp_path / f"{i}.png") for i in range(5)), "--json").stdout
    )
    assert sum(row["label"] == "9" for row in seen["answers"]) >= 3
    assert run("forget", "--label", "9").returncode == 0
    again = run("forget", "--label", "9")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


def test_the_first_class_of_an_extractor_lies_close_to_nothing(call, tmp_path):
    from PIL import Image

    extractor_bundle(tmp_path / "x.pfb")
    Image.fromarray(pictures(1)[0]).save(tmp_path / "one.png")
    done = call("enroll", "--bundle", "x.pfb", "--label", "one", "one.png", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["nearest"], document["share"]) == (None, None)


def test_a_member_enrols_under_the_name_it_joined_by(tmp_path):
    membership.write(FleetMember("orchard", "camera-07", "mqtt://b", tmp_path / "identity"))

    @click.command()
    @click.option("--id", "agent")
    @broker_options
    def command(agent, reach):
        click.echo(f"{agent} {membership.of_address(reach('mqtt://b')).name}")

    for words, said in (((), "camera-07 camera-07"), (("--id", "x"), "x camera-07")):
        answer = CliRunner().invoke(command, ["--member", str(tmp_path), *words])
        assert answer.output.strip() == said
