"""`protofleet bench cross`: names are checked first, and a page changes between its marks alone."""

import pytest
from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.bench_cross_cmd import cross

MARKS = ("figures", "full length")
BEFORE, AFTER = "# A page\n\nWords.\n", "\n\nMore words.\n"


def call(tmp_path, *words):
    where = ["--out", str(tmp_path / "runs"), "--records", str(tmp_path / "records")]
    return CliRunner().invoke(cross, [*words, *where])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--task", "fashio"], "no task is called 'fashio'"),
        (["--only", "fleett"], "no contender is called 'fleett'"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_those_there_are(tmp_path, words, says):
    failure = call(tmp_path, *words).exception
    assert isinstance(failure, UsageError)
    assert says in str(failure)
    assert "fashion" in str(failure) or "fedproto" in str(failure)


def test_the_tables_go_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{BEFORE}<!-- figures -->\nold\n<!-- end of figures -->{AFTER}")
    run = call(tmp_path, "--task", "mnist", "--page-only", "--write", str(page))
    assert run.stdout == f"written: {page}\n"
    text = page.read_text()
    assert text.startswith(f"{BEFORE}<!-- figures -->\n")
    assert text.endswith(f"<!-- end of figures -->{AFTER}")
    assert "\nold\n" not in text
    assert "### What each part gives" in text


def test_the_list_says_what_there_is_to_run(tmp_path):
    text = call(tmp_path, "--list", "--task", "paper-*", "--seeds", "2").stdout
    lines = text.splitlines()
    assert lines[0].split() == ["paper-cifar10", "fleet", "60", "rounds", "0", "of", "2", "seeds"]
    assert any(line.split()[:3] == ["paper-fashion-everyone", "fedmps", "800"] for line in lines)
    assert lines[-1] == "64 runs are missing"


def test_tables_of_tasks_that_were_not_chosen_stay(tmp_path):
    page = tmp_path / "page.md"
    blocks = [f"<!-- {n} -->\nold {n}\n<!-- end of {n} -->\n" for n in MARKS]
    page.write_text("".join(blocks))
    words = ("--page-only", "--write", str(page))
    assert call(tmp_path, "--task", "paper-*", *words).exit_code == 0
    assert "old figures" in page.read_text()
    assert "old full length" not in page.read_text()
    page.write_text("".join(blocks))
    assert call(tmp_path, "--task", "mnist", *words).exit_code == 0
    assert "old figures" not in page.read_text()
    assert "old full length" in page.read_text()


def test_a_page_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(BEFORE)
    assert isinstance(call(tmp_path, "--page-only", "--write", str(page)).exception, UsageError)
    assert page.read_text() == BEFORE
