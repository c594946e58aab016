"""The device's page put together: its documents, what may be done on it, and its pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from edge_agent.page.desk import Desk
from edge_agent.recent.queue import RecentBounds
from protofleet.errors import UsageError
from protofleet.pages.feed import Feed
from protofleet.pages.site import Site
from protofleet.values.prototypes import Floats

MOST_KEYS = 500  # pictures of one action
JPEG = "image/jpeg"


def owner_site(name: str, bundle: Path, source: Path, bounds: RecentBounds) -> Site:
    """Of the device of this name."""
    desk = Desk(bundle, source, bounds, lambda files: embedded(bundle, files))
    desk.labelling.mend()
    sources = {
        "device": lambda: {"name": name},
        "now": desk.now,
        "queue": desk.queue_document,
        "heaps": desk.heaps,
        "classes": desk.classes,
    }
    return Site(
        "device",
        Path(__file__).parent / "assets",
        Feed(sources),
        actions=_actions(desk),
        routes=_routes(desk),
        ready=lambda: "" if bundle.exists() else "the fleet's extractor is on its way",
    )


def embedded(bundle: Path, files: list[Path]) -> tuple[str, Floats]:
    """Features of pictures that another extractor saw, and whose they are."""
    from edge_agent.data import images
    from edge_agent.inference.classifier import Classifier
    from protofleet.util.allocator import give_freed_memory_back

    classifier = Classifier(bundle)
    kind = classifier.bundle.manifest.input
    rows = [classifier.embed(images.read(file, kind)[None])[0] for file in files]
    lineage = classifier.bundle.manifest.lineages[0]
    del classifier
    give_freed_memory_back()
    return lineage, np.stack(rows)


def _actions(desk: Desk) -> dict[str, Any]:
    def label(words: dict[str, Any]) -> Mapping[str, Any]:
        name = words["label"]
        if not isinstance(name, str):
            raise ValueError("a name is a text")
        name = desk.known_as(" ".join(name.split()))
        return {"pictures": desk.labelling.label(_keys(words), name), "label": name}

    def throw(words: dict[str, Any]) -> Mapping[str, Any]:
        return {"pictures": desk.labelling.throw(_keys(words))}

    def undo(words: dict[str, Any]) -> Mapping[str, Any]:
        number = words.get("number")
        action = desk.labelling.undo(number if type(number) is int else None)
        if action is None:
            raise UsageError("there is nothing to take back")
        return {"label": action.label, "pictures": action.pictures}

    return {"label": label, "throw": throw, "undo": undo}


def _routes(desk: Desk) -> list[Route]:
    def now(request: Request) -> Response:
        data = desk.now_picture()
        return Response(data, media_type=JPEG) if data else _nothing()

    def picture(request: Request) -> Response:
        path = desk.picture(str(request.path_params["key"]))
        return _nothing() if path is None else Response(path.read_bytes(), media_type=JPEG)

    return [Route("/picture/now", now), Route("/picture/{key}", picture)]


def _keys(words: Mapping[str, Any]) -> list[str]:
    keys = words["keys"]
    if not isinstance(keys, list) or not 0 < len(keys) <= MOST_KEYS:
        raise ValueError(f"1 to {MOST_KEYS} keys are due")
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("keys are texts")
    return keys


def _nothing() -> Response:
    return JSONResponse({"error": "there is no such picture"}, 404)
