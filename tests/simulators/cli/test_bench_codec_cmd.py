"""`protofleet bench codec` prints the sizes that it measured."""

import json

from click.testing import CliRunner

from simulators.cli.bench_codec_cmd import codec


def test_people_and_programs_get_the_same_sizes():
    rows = json.loads(CliRunner().invoke(codec, ["--repeats", "1", "--json"]).stdout)
    lines = CliRunner().invoke(codec, ["--repeats", "1"]).stdout.splitlines()[2:]
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row["name"])
        size = line[14:].split()[0]
        assert size == f"{row['bytes']:,}"
