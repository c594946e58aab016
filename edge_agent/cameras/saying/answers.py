"""What is said of a camera: one document, the same on every way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

# An answer held; a frame is one look, as it was, for whoever tunes a camera; lost: no frames come,
# and what was said before is no answer any more.
AnswerKind = Literal["answer", "frame", "lost"]


@dataclass(frozen=True)
class SceneAnswer:
    """Of one region of one camera."""

    kind: AnswerKind
    camera: str
    region: str
    at: float  # seconds since 1970: of the newest frame in it
    label: str | None = None
    unknown: bool = False
    probability: float | None = None  # None: nobody calibrated these scores
    nearest: str | None = None
    frames: int = 0  # that it was made of
    age: float = 0.0  # seconds of that frame when it was answered
    state: str = ""  # of the classes

    @property
    def place(self) -> str:
        """Camera and region as one word, as topics have it."""
        return place_of(self.camera, self.region)

    def document(self) -> dict[str, Any]:
        """As it is said."""
        sure = self.probability
        return {
            "time": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds"),
            "kind": self.kind,
            "camera": self.camera,
            "region": self.region,
            "label": self.label,
            "unknown": self.unknown,
            "probability": None if sure is None else round(sure, 4),
            "nearest": self.nearest,
            "frames": self.frames,
            "age": round(self.age, 3),
            "state": self.state[:16],
        }

    def line(self) -> str:
        """The document as one line."""
        return json.dumps(self.document(), ensure_ascii=False)


def place_of(camera: str, region: str) -> str:
    """Camera and region as one word."""
    return f"{camera}.{region}" if region else camera
