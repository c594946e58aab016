"""What crosses between devices and the coordinator in a round: uploads one way, the global state
the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from protofleet import wire
from protofleet.values.prototypes import Parts


@dataclass(frozen=True)
class Upload:
    """What one agent sends in one round; `base` names the shared state it was trained on."""

    agent: str
    round: int
    base: str
    parts: Parts


@dataclass(frozen=True)
class GlobalState:
    """What a round starts from: `shared` goes to all, `own[agent]` to one, `server` to nobody."""

    shared: Parts = field(default_factory=dict)
    own: Mapping[str, Parts] = field(default_factory=dict)
    server: Parts = field(default_factory=dict)

    def __post_init__(self) -> None:
        # An own part without parts is the same as none: it may not count in the hash, since it
        # leaves no trace on disk.
        object.__setattr__(
            self, "own", {agent: parts for agent, parts in self.own.items() if parts}
        )

    @cached_property
    def base(self) -> str:
        """The content hash of the shared part: what an upload says it was trained on."""
        return wire.digest(self.shared)

    @cached_property
    def sha256(self) -> str:
        """The content hash of everything: what two runs are compared by."""
        lines = [f"shared {self.base}", f"server {wire.digest(self.server)}"]
        lines += [f"own {agent} {wire.digest(self.own[agent])}" for agent in sorted(self.own)]
        return sha256("\n".join(lines).encode()).hexdigest()

    def for_agent(self, agent: str) -> Parts:
        """The agent's own part, empty where the method has none."""
        return self.own.get(agent, {})
