"""`protofleet bench cross`: names are checked first, and a page changes between its marks alone."""

import pytest
from click.testing import CliRunner

from protofleet.errors import UsageError
from simulators.cli.bench_cross_cmd import cross

BEFORE, AFTER = "# A page\n\nWords.\n", "\n\nMore words.\n"


def call(tmp_path, *words):
    return CliRunner().invoke(cross, [*words, "--out", str(tmp_path / "runs")])


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
    run = call(tmp_path, "--page-only", "--write", str(page))
    assert run.stdout == f"written: {page}\n"
    text = page.read_text()
    assert text.startswith(f"{BEFORE}<!-- figures -->\n")
    assert text.endswith(f"<!-- end of figures -->{AFTER}")
    assert "\nold\n" not in text
    assert "### What each part gives" in text


def test_a_page_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(BEFORE)
    assert isinstance(call(tmp_path, "--page-only", "--write", str(page)).exception, UsageError)
    assert page.read_text() == BEFORE
