"""What mkdocs is told beyond mkdocs.yml: pages that are made (tools/reference.py), and files of the
repository that pages link to, so that no link leads out of the site.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
import reference  # noqa: E402

# Pages that stand at the top of the repository.
TOP = ("CHANGELOG.md", "CONTRIBUTING.md")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# What tests/test_documents.py goes by; readers see what is not run.
MARK = re.compile(r"^<!-- (run|run: [^\n]*|tested by [^\n]*) -->\n", re.M)
NOT_RUN = re.compile(r"^<!-- not run: ([^\n]*) -->\n(```+.*?^```+)$", re.S | re.M)
BELOW = re.compile(r"^<!-- not run below: ([^\n]*) -->$", re.M)
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".yaml": "yaml", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is made."""
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    for name in TOP:
        text = (ROOT / name).read_text()
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    for target in _outside(files):
        page = File.generated(config, _page_of(target), content=_source(ROOT / target))
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links out of docs/ to the pages that hold those files."""
    where = posixpath.dirname(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        target = _target(where, match[1])
        if target is None:
            return match[0]
        page = target if target in TOP else _page_of(target)
        return f"]({posixpath.relpath(page, where or '.')}{match[2] or ''})"

    text = MARK.sub("", markdown)
    text = NOT_RUN.sub(r"\2\n\n<small>Not run by the tests: \1.</small>\n", text)
    text = BELOW.sub(r"<small>The commands below are not run by the tests: \1.</small>", text)
    return LINK.sub(led, text)


def _outside(files: Files) -> list[str]:
    """What pages link to outside docs/, from the repository's top."""
    targets = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(file.content_string):
            target = _target(posixpath.dirname(file.src_uri), match[1])
            if target is not None and target not in TOP:
                targets.add(target)
    return sorted(targets)


def _target(where: str, link: str) -> str | None:
    """A link as a path from the repository's top, if it is one to a file outside docs/."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    at = posixpath.normpath(posixpath.join("docs", where, link))
    if at.startswith("docs/") or not (ROOT / at).exists():
        return None
    return at


def _page_of(target: str) -> str:
    return f"source/{target}.md"


def _source(path: Path) -> str:
    """A file, or what is in a folder, as a page."""
    name = path.relative_to(ROOT)
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
        return "\n\n".join(
            [f"# `{name}/`", *(f"## `{f.relative_to(path)}`\n\n{_fenced(f)}" for f in files)]
        )
    if path.suffix == ".ipynb":
        return _notebook(path)
    return f"# `{name}`\n\n{_fenced(path)}\n"


def _notebook(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    lines = [f"`{path.relative_to(ROOT)}`, run by the tests from top to bottom."]
    lines += [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in texts]
    return "\n\n".join(lines) + "\n"


def _fenced(path: Path) -> str:
    return f"`````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n`````"
