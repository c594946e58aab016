"""What the operator's page shows and does: questions and commands for the coordinator's socket."""

# Theory of operation
#
# This process has nothing of a fleet but the path to a socket. Everything it shows is the answer to
# a question that any command could ask, and every button is such a command. So it may crash, be
# flooded or be killed: the service sees one connection that ends. Questions go one at a time and at
# most once a second (`protofleet.pages.feed`), and only while somebody looks.
#
#   document          of                        changes
#   status            the whole at a glance     with everything
#   fleet             every device in a line    times of silence in steps, or it changed each second
#   learning classes members rounds rollouts    as it is asked
#   /api/device/NAME  one device, all of it
#   /api/events       what happened, by page
#   /metrics          for Prometheus (`coordinator.metrics`)

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.metrics.scrape import not_ready, scraped
from coordinator.service.control import ask
from protofleet.errors import UsageError
from protofleet.metrics.route import metrics_route
from protofleet.pages.feed import Feed, Source
from protofleet.pages.site import Action, Site

T = TypeVar("T")

ASSETS = Path(__file__).parent / "assets"
LAST = 100  # events in a page

BY = {"by": "the page"}

# By the action's name: the command, its fixed words, and which words it takes from the browser.
COMMANDS: Mapping[str, tuple[str, Mapping[str, Any], tuple[tuple[str, type], ...]]] = {
    "pause": ("pause", {}, ()),
    "resume": ("resume", {}, ()),
    "admit": ("classes", {"what": "admit"}, (("name", str),)),
    "remove": ("classes", {"what": "remove"}, (("name", str),)),
    "rename": ("classes", {"what": "rename"}, (("name", str), ("to", str))),
    "back": ("classes", {"what": "back"}, (("version", int),)),
    "forget": ("forget", {}, (("agent", str),)),
    "rollout-start": (
        "rollout",
        {"what": "start", **BY},
        (("file", str), ("groups", list), ("error", float), ("trigger", float), ("canaries", list)),
    ),
    "rollout-halt": ("rollout", {"what": "halt", **BY}, ()),
    "rollout-resume": ("rollout", {"what": "resume", **BY}, ()),
    "rollout-back": ("rollout", {"what": "back", **BY}, ()),
    "revoke": ("revoke", {}, (("agent", str),)),
}


def site(data_dir: Path) -> Site:
    """The page of the coordinator whose data this is."""
    question = partial(_question, data_dir)
    feed = Feed(
        {
            "status": question("status"),
            "fleet": lambda: _fleet(ask(data_dir, "agents")),
            "classes": question("classes", what="list"),
            "learning": question("learning"),
            "members": question("members"),
            "rounds": question("rounds", last=50),
            "rollout": question("rollout", what="status"),
            "rollouts": question("rollout", what="list"),
        }
    )

    async def device(request: Request) -> Response:
        name = request.path_params["name"]
        return await feed.answer(request, lambda: _device(data_dir, name))

    async def events(request: Request) -> Response:
        words = {n: request.query_params[n] for n in ("kind", "agent") if n in request.query_params}
        before = request.query_params.get("before", "")
        page = {"before": int(before)} if before.isascii() and before.isdigit() else {}
        return await feed.answer(request, question("events", last=LAST, **words, **page))

    actions = {name: _action(data_dir, name) for name in COMMANDS}
    routes = (
        Route("/api/device/{name}", device),
        Route("/api/events", events),
        metrics_route(momentary(lambda: scraped(data_dir))),
    )
    ready = momentary(lambda: not_ready(data_dir))
    return Site("operator", ASSETS, feed, actions, routes, ready)


def momentary(source: Callable[[], T], seconds: float = 1.0) -> Callable[[], T]:
    """The same answer for a moment, to whoever asks: these two may be asked by anybody."""
    turn, newest = Lock(), list[tuple[float, T]]()

    def answer() -> T:
        with turn:
            if not newest or monotonic() - newest[0][0] >= seconds:
                newest[:] = [(monotonic(), source())]
            return newest[0][1]

    return answer


def _question(data_dir: Path, command: str, **words: Any) -> Source:
    return lambda: ask(data_dir, command, **words)


def _action(data_dir: Path, name: str) -> Action:
    command, fixed, takes = COMMANDS[name]

    def perform(words: dict[str, Any]) -> Mapping[str, Any]:
        given = {}
        for word, kind in takes:
            # In JSON 1 may be meant as 1.0; true is no number.
            kinds = (int, float) if kind is float else (kind,)
            if type(words.get(word)) not in kinds:
                raise UsageError(f"{name}: {word} is missing, or of the wrong kind")
            given[word] = words[word]
        ask(data_dir, command, **fixed, **given)
        return {"done": name}

    return perform


def _device(data_dir: Path, name: str) -> dict[str, Any]:
    """All of one device."""
    rows = ask(data_dir, "agents")["agents"]
    row = next((row for row in rows if row["agent"] == name), None)
    if row is None:
        raise UsageError(f"there is no device {name!r}")
    members = ask(data_dir, "members")["members"]
    events = ask(data_dir, "events", agent=name, last=20)["events"]
    return {
        **row,
        "seen_seconds_ago": coarse(row["seen_seconds_ago"]),
        "member": next((member for member in members if member["name"] == name), None),
        "events": events,
    }


def _fleet(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A line a device: of a thousand of them a page takes no more than it shows."""
    return {"devices": [line(row) for row in answer["agents"]]}


def line(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of a device among others."""
    drift, contributed = row.get("drift"), row.get("contributed") or {}
    troubles = [
        row.get("refused", ""),
        row.get("notice", ""),
        *row.get("suspects", ()),
        drift["sentence"] if drift is not None and drift["changed"] else "",
        "not heard: most others contradict it" if row.get("doubted") else "",
    ]
    unsaid = row.get("unsaid", ())
    return {
        "agent": row["agent"],
        "standing": standing(row),
        "seen": coarse(row["seen_seconds_ago"]),
        "version": row.get("version", ""),
        "runs": row.get("runs", "")[:12],
        "round": row["round"],
        "samples": sum(contributed.values()) or row.get("samples"),
        "classes": len(contributed) or len(row.get("classes", ())),
        "unsaid": len(unsaid),
        "accuracy": next(iter(row["accuracy"].values()), None),
        "bytes": row.get("bytes", 0),
        "declines": row["declines"],
        "troubles": [words for words in troubles if words],
    }


def standing(row: Mapping[str, Any]) -> str:
    """Whether a device is there, in a word."""
    if row["left"]:
        return "left"
    if row.get("gone"):
        return "silent"
    return "there" if row["online"] else "away"


def coarse(seconds: float) -> int:
    """A time of silence in steps that a person tells apart."""
    step = 10 if seconds < 120 else 60 if seconds < 5400 else 3600
    return int(seconds // step * step)
