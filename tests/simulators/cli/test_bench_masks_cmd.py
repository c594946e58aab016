import json

from click.testing import CliRunner

from simulators.cli.bench_masks_cmd import masks


def test_the_figures_are_for_people_and_for_programs():
    small = ["--devices", "4", "--width", "16", "--dropouts", "1", "--samples", "100"]
    words = CliRunner().invoke(masks, small)
    assert "to the bit" in words.output, words.output
    assert "4 devices, 3 neighbours each, 1 lost" in words.output
    assert json.loads(CliRunner().invoke(masks, [*small, "--json"]).output)["equal"] is True


def test_more_losses_than_a_group_can_have_are_one_line():
    outcome = CliRunner().invoke(masks, ["--devices", "4", "--dropouts", "2"])
    assert "4 devices cannot lose 2" in str(outcome.exception)
