"""The documents as a site: built without a warning, every link leads somewhere, the reference is
whole, and nothing is fetched from elsewhere.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pymdownx.slugs import slugify

from coordinator.cli import coordinator
from edge_agent.cli import agent
from protofleet import registry
from protofleet.cli.main import umbrella

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
SLUG = slugify(case="lower")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site's folder, and what mkdocs said."""
    target = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return target, done.stderr


@pytest.fixture(scope="module")
def pages(built):
    return {path: path.read_text() for path in built[0].rglob("*.html")}


def test_it_is_built_without_a_word_of_complaint(built):
    lines = [line for line in built[1].splitlines() if line.strip()]
    usual = ("Cleaning site directory", "Building documentation", "Documentation built")
    assert not [line for line in lines if not any(word in line for word in usual)]


def test_nothing_is_fetched_from_elsewhere(pages):
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=.?https?:|<link[^>]+stylesheet[^>]+https?:"
    )
    assert not [str(path) for path, text in pages.items() if loaded.search(text)]


def test_no_list_or_table_was_taken_for_a_paragraph(pages):
    # A repository's page begins a list without an empty line before it; a site does not.
    lost = re.compile(r"<p>[^<]*\n(?:[-*] |1\. |\|)")
    assert not [str(path) for path, text in pages.items() if lost.search(text)]


def test_every_command_and_every_method_is_in_the_reference(built):
    def below(group, path):
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            yield f"{path} {name}"
            if isinstance(command, click.Group):
                yield from below(command, f"{path} {name}")

    for name, program in (
        ("protofleet", umbrella),
        ("coordinator", coordinator),
        ("edge-agent", agent),
    ):
        text = (built[0] / "reference" / name / "index.html").read_text()
        assert not [path for path in below(program, name) if f"<code>{path}</code>" not in text]
    text = (built[0] / "reference" / "methods" / "index.html").read_text()
    assert all(f"<code>{name}</code>" in text for name in registry.names())


def test_readers_see_what_is_not_run(built):
    text = (built[0] / "operate" / "index.html").read_text()
    assert "Not run by the tests: a live fleet." in text
    assert "&lt;!--" not in text


def test_links_lead_somewhere_in_the_repository_too():
    lost = []
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        text = re.sub(r"^(```+).*?^\1$", "", page.read_text(), flags=re.S | re.M)
        for path, anchor in LINK.findall(text):
            target = page.parent / path if path else page
            if not target.exists():
                lost.append(f"{page.name}: {path}")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                lost.append(f"{page.name}: {path}#{anchor}")
    assert not lost


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", head.replace("`", "")) for head in heads]
    return {SLUG(head, "-") for head in plain}
