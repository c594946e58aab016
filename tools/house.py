"""How easily the house is read, in figures: `python tools/house.py [--json] [--list WHAT] [ROOT]`.

Comments, long lines, names that say nothing, names used twice, functions that want too much,
folders that are too full, modules without a test of their name. `tests/test_house.py` holds the
figures.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOMS = ("protofleet", "edge_agent", "coordinator", "export", "simulators")
LONGEST = 100  # characters of a line
MOST_ARGUMENTS = 7
MOST_MODULES = 16  # of a folder, where the folder is not a list of things of one kind
LISTS = ("methods", "toolbox", "cases", "cli")
# Participles that say what happened to a value and not what it is.
VAGUE = frozenset(
    {
        "found",
        "held",
        "told",
        "said",
        "made",
        "each",
        "came",
        "seen",
        "got",
        "gone",
        "kept",
        "known",
        "sent",
        "taken",
        "given",
        "asked",
        "went",
        "heard",
        "wanted",
        "due",
        "left",
    }
)
SEVERAL = frozenset({"Hyper"})  # every method has its own, under its module's name
DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|ruff:|pragma)")


@dataclass(frozen=True)
class House:
    """What was counted, and where."""

    files: int
    lines: int
    comments: int
    long_lines: list[str]
    bindings: int
    vague: list[str]
    classes_twice: list[str]
    modules_twice: list[str]
    many_arguments: list[str]
    full_folders: list[str]
    modules: int
    untested: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """The shares and counts that are held."""
        return {
            "files": self.files,
            "lines": self.lines,
            "comments_percent": round(100 * self.comments / max(self.lines, 1), 2),
            "long_lines": len(self.long_lines),
            "vague_percent": round(100 * len(self.vague) / max(self.bindings, 1), 2),
            "classes_twice": len(self.classes_twice),
            "modules_twice": len(self.modules_twice),
            "many_arguments": len(self.many_arguments),
            "full_folders": len(self.full_folders),
            "tested_percent": round(100 - 100 * len(self.untested) / max(self.modules, 1), 1),
        }


def measure(root: Path) -> House:
    """Walk the rooms."""
    paths = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    lines = comments = bindings = 0
    long_lines, vague, many = [], [], []
    classes: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        where, source = str(path.relative_to(root)), path.read_text()
        rows = source.splitlines()
        lines += len(rows)
        comments += _comments(source)
        long_lines += [f"{where}:{n}" for n, row in enumerate(rows, 1) if len(row) > LONGEST]
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{where}:{node.lineno}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if _arguments(node) > MOST_ARGUMENTS and not _is_command(node):
                    many.append(f"{where}:{node.lineno} {node.name} ({_arguments(node)})")
                names = _bound(node)
                bindings += len(names)
                vague += [
                    f"{where}:{node.lineno} {node.name}: {name}" for name in sorted(names & VAGUE)
                ]
    modules = [path for path in paths if not path.name.startswith("__")]
    return House(
        len(paths),
        lines,
        comments,
        long_lines,
        bindings,
        vague,
        [
            f"{n}: {', '.join(at)}"
            for n, at in sorted(classes.items())
            if len(at) > 1 and n not in SEVERAL
        ],
        _modules_twice(root, modules),
        many,
        _full_folders(root, modules),
        len(modules),
        [str(m.relative_to(root)) for m in modules if not _test_of(root, m).exists()],
    )


def _comments(source: str) -> int:
    """Lines that hold a comment meant for people."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(t.type == tokenize.COMMENT and not DIRECTIVE.match(t.string) for t in tokens)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self` and `cls`."""
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Click gives a command as many arguments as it has options."""
    return any(
        re.search(r"\b(command|option|argument|_options?)\b", ast.unparse(d))
        for d in node.decorator_list
    )


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Parameters, and every name bound in the function's own body, not in functions inside it."""
    args = function.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    names = {a.arg for a in every if a is not None}
    return names | {name for statement in function.body for name in _stored(statement)}


def _stored(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    if isinstance(node, ast.Lambda):
        yield from (a.arg for a in node.args.args)
    for child in ast.iter_child_nodes(node):
        yield from _stored(child)


def _modules_twice(root: Path, modules: list[Path]) -> list[str]:
    names = Counter((m.relative_to(root).parts[0], m.stem) for m in modules)
    return [f"{room}: {name}" for (room, name), count in sorted(names.items()) if count > 1]


def _full_folders(root: Path, modules: list[Path]) -> list[str]:
    counts = Counter(m.parent.relative_to(root) for m in modules)
    return [
        f"{at} ({n})"
        for at, n in sorted(counts.items())
        if n > MOST_MODULES and at.name not in LISTS
    ]


def _test_of(root: Path, module: Path) -> Path:
    at = module.relative_to(root)
    return root / "tests" / at.parent / f"test_{at.name}"


def main() -> None:
    """Print the figures, or what is behind one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--list", metavar="WHAT", help="one of the lists: vague, untested, classes_twice, ..."
    )
    given = parser.parse_args()
    house = measure(given.root)
    if given.list:
        print("\n".join(asdict(house)[given.list]))
    elif given.json:
        print(json.dumps(house.figures(), indent=1))
    else:
        for name, value in house.figures().items():
            print(f"{name:<18}{value:>10}")


if __name__ == "__main__":
    sys.exit(main())
