"""What the documents show is run, or says that it is not.

A fence of commands or code has a mark, an HTML comment on the line before it:

    <!-- run -->                     this test runs it, with what stands before it on the page
    <!-- run: --rounds 1 -->         and adds these words to every command that knows them
    <!-- tested by tests/… -->       that test runs it
    <!-- not run: why -->            nobody does
    <!-- not run below: why -->      nor what stands below on this page without a mark, indented too

Without a mark are TOML, YAML and JSON, which are read here, and what is neither command nor code
(`text`, or no language). Whether run or not, the words of our commands are held to their options,
in running text, too. Where a fence shows what a command prints, it prints that, but for numbers.
"""

import json
import re
import shlex
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

import protofleet
from coordinator.cli import coordinator
from coordinator.config import FleetConfig
from coordinator.journal import journal
from edge_agent import records
from edge_agent.cli import agent
from edge_agent.config import Config
from protofleet import wire
from protofleet.cli.main import umbrella
from protofleet.exchange import archive
from protofleet.settings.fields import from_plain
from simulators.run import result

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=lambda page: page.as_posix()
)
PROGRAMS = {"protofleet": umbrella, "coordinator": coordinator, "edge-agent": agent}
# What else a line of a terminal may begin with.
OTHERS = (
    r"make|pipx?|uv|docker|mosquitto\w*|printf|cat|curl|np[mx]|node|python3?|\.|systemctl|sudo"
    r"|apt|apt-get|git|openssl|cp|mkdir|journalctl|bash|sh|dpkg|debootstrap|npx|tsc|g\+\+"
)
TERMINAL = re.compile(rf"^(\$ )?([A-Z_]+=\S+ )*({'|'.join(PROGRAMS)}|{OTHERS})( |$)", re.M)
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?(?P<ticks>```+)(?P<language>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=ticks)$",
    re.S | re.M,
)
BELOW = "<!-- not run below: "
READ = ("toml", "yaml", "json")
INDENTED = re.compile(rf"^    ((?:{'|'.join(PROGRAMS)}) .*)$", re.M)
SPAN = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`")


@dataclass(frozen=True)
class Fence:
    page: str
    line: int
    mark: str
    language: str
    body: str

    @property
    def shell(self) -> bool:
        return self.language in ("", "sh", "console") and bool(TERMINAL.search(self.body))

    @property
    def code(self) -> bool:
        return self.shell or self.language not in ("", "text", *READ)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(page):
    text = page.read_text()
    below = text.find(BELOW) if BELOW in text else len(text)
    for match in FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 1
        name = str(page.relative_to(ROOT))
        mark = match["mark"] or ("not run: above" if match.start() > below else "")
        yield Fence(name, line, mark, match["language"], match["body"])


ALL = [fence for page in PAGES for fence in fences(page)]
RUN = sorted({fence.page for fence in ALL if fence.mark.partition(":")[0] == "run"})


def spoken(body):
    """`[(command, lines it prints)]`; without prompts a line is a command or nothing of ours."""
    prompt = "$ " if re.search(r"^\$ ", body, re.M) else ""
    exchanges = []
    for line in re.sub(r"\\\n\s*", "", body).splitlines():
        if line.startswith(prompt) and (prompt or line.strip()):
            exchanges.append((line.removeprefix(prompt), []))
        elif exchanges and prompt:
            exchanges[-1][1].append(line)
    return exchanges


def words_of(line):
    """A command's own words, without comments, redirections and what it is piped into."""
    text = re.split(r"\s[|&]\s|\s\d?>>?\s*|\s\d>/|\s<\(", re.sub(r"(^|\s)#.*", "", line))[0]
    try:
        words = shlex.split(text)
    except ValueError:  # a text that goes on in the next line
        words = text.split()
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    return words


def resolved(words):
    """The command that these words call, and the words that are left for it."""
    command, rest = PROGRAMS[words[0]], list(words[1:])
    context = click.Context(command, info_name=words[0])
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            break
        command, context = found, click.Context(found, parent=context, info_name=rest.pop(0))
    return command, rest


def complaint(words):
    """What is wrong with a call; nothing where its options are there."""
    if words[0] not in PROGRAMS:
        return ""
    command, rest = resolved(words)
    if (
        isinstance(command, click.Group)
        and rest
        and not rest[0].startswith("-")
        and re.fullmatch(r"[a-z-]+", rest[0])
    ):
        return f"{' '.join(words)}: there is no command {rest[0]!r}"
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    known |= {"--help", "-h", "--version", "--debug"}
    flags = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    return f"{' '.join(words)}: {command.name} has no {sorted(flags - known)}" * bool(flags - known)


def test_every_snippet_is_run_or_says_that_it_is_not():
    form = re.compile(r"run(: .+)?|tested by \S+|not run: .+")
    bare = [str(fence) for fence in ALL if fence.code and not form.fullmatch(fence.mark)]
    assert not bare, f"without a mark (see {Path(__file__).name}): {bare}"


def test_a_test_that_a_mark_names_knows_the_page():
    for fence in ALL:
        if fence.mark.startswith("tested by "):
            test = ROOT / fence.mark.removeprefix("tested by ")
            assert test.exists(), f"{fence}: {test}"
            assert Path(fence.page).name in test.read_text(), f"{fence}: {test} knows no such page"


def test_indented_commands_stand_below_such_a_mark():
    for page in PAGES:
        text = FENCE.sub("", page.read_text()).partition(BELOW)[0]
        assert not INDENTED.search(text), f"{page}: a command without a fence"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_have_the_options_that_they_are_called_with(page):
    calls = [
        words_of(line) for fence in fences(page) if fence.shell for line, _ in spoken(fence.body)
    ]
    text = FENCE.sub("", page.read_text())
    # In running text options may be in brackets, and alternatives side by side.
    spans = (
        [] if page.name == "CHANGELOG.md" else SPAN.findall(text)
    )  # that speaks of the past, too
    spans = [*spans, *INDENTED.findall(re.sub(r"\\\n\s*", "", text))]
    calls += [re.sub(r"[\[\]…|'\"]", " ", span.partition("  #")[0]).split() for span in spans]
    bad = list(filter(None, (complaint(words) for words in calls if words)))
    assert not bad, bad


@pytest.mark.parametrize("fence", [f for f in ALL if f.language in READ], ids=str)
def test_what_is_read_can_be_read(fence):
    if fence.language == "json":
        json.loads(fence.body)
    elif fence.language == "yaml":
        yaml.safe_load(fence.body)
    else:
        document = tomllib.loads(fence.body)
        if "build-system" in document:
            return
        for name, section in document.items():
            if name in ("settings", "contract"):
                continue
            kinds = [
                type(getattr(config(), field.name))
                for config in (Config, FleetConfig)
                for field in fields(config)
                if field.name == name
            ]
            assert kinds, f"{fence}: no section [{name}]"
            known = {field.name for kind in kinds for field in fields(kind)}
            assert set(section) <= known, f"{fence}: [{name}] {set(section) - known}"
            if len(kinds) == 1:
                from_plain(kinds[0], section)


def alike(text):
    """Lines but for numbers, hashes and how columns are spaced."""
    text = re.sub(r"\b[0-9a-f]{12,}\b", "h", text)
    text = re.sub(r"-?\d[\d.,]*(e-?\d+)?", "0", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def called(line, more):
    words = words_of(line)
    if words[0] not in PROGRAMS:
        raise AssertionError(f"not a command of ours: {line}; `not run: why`")
    command, _ = resolved(words)
    known = {name for p in command.params for name in p.opts}
    extra = shlex.split(more)
    while extra and extra[0] in known:
        words, extra = [*words, *extra[:2]], extra[2:]
    outcome = CliRunner().invoke(
        PROGRAMS[words[0]], words[1:], standalone_mode=False, catch_exceptions=False
    )
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.mark.parametrize("page", RUN)
def test_what_is_marked_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTOFLEET_DATA", raising=False)
    for fence in ALL:
        kind, _, more = fence.mark.partition(":")
        if fence.page != page or kind != "run":
            continue
        if fence.language == "python":
            exec(compile(fence.body, str(fence), "exec"), {"__name__": "__main__"})
            continue
        for line, shown in spoken(fence.body):
            printed, due = alike(called(line, more)), alike("\n".join(shown))
            if "..." in due:
                due = due[: due.index("...")]
            assert printed[: len(due)] == due or not due, f"{fence}: {line}"


def test_the_page_on_versions_names_those_of_the_code():
    page = (ROOT / "docs" / "versions.md").read_text()
    rows = dict(re.findall(r"^\| (?:\[)?`?([\w' .]+?)`?(?:\]\S*)? \| ([^|]+) \|", page, re.M))
    assert rows["release"] == protofleet.__version__
    assert rows["wire"] == str(wire.VERSION)
    assert rows["journal"] == f"schema {journal.SCHEMA}"
    assert rows["a device's store"] == f"version {records.VERSION}"
    assert rows["bundle"] == f"`{archive.SCHEMA}`"
    assert rows["result.json"] == str(result.SCHEMA)
