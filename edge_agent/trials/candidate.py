"""What is rolled out to this device: fetched, tried beside what is in use, adopted, proven, and
reported; the rules are in `edge_agent.trials.progress`.

In the device's directory `rollout.json` says how far it is, `fleet-<name>.pfb` is a bundle that
waits for its trial, and `previous.pfb` is the one that was in use before.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from edge_agent.config import Config
from edge_agent.trials import progress as rules
from edge_agent.trials.progress import (
    ChannelState,
    Course,
    Facts,
    FetchCandidate,
    ProveCandidate,
    RolloutStanding,
    TrialOutcome,
    TryCandidate,
)
from edge_agent.updates import cache
from edge_agent.updates.uses import read_uses
from edge_agent.worker.process import ChildProcess, Start, last_words, report_of
from protofleet.errors import SettingError, WireError
from protofleet.exchange.rollouts import RolloutPlan, RolloutReport, read_plan
from protofleet.settings.fields import from_plain, to_plain
from protofleet.util.files import OWN_FILE, write_whole
from protofleet.util.logs import Log
from protofleet.wire.codes import Setback

NAME = "rollout.json"
LOOK = 1.0  # seconds between looks at what classifies here
NO_PLAN = RolloutPlan()


class Reporter(Protocol):
    """As much of what speaks for a device as is needed here."""

    def reported(self, report: RolloutReport, run: str, epoch: int) -> bool: ...


class Candidate:
    """The edge of the rules: files, processes and reports. `file` is the bundle in use."""

    def __init__(
        self,
        config: Config,
        file: Path,
        outbound: Reporter,
        log: Log,
        clock: Callable[[], float],
        start: Start,
    ) -> None:
        self._config, self._file, self._outbound, self._log = config, file, outbound, log
        self._clock, self._start = clock, start
        self.plan = NO_PLAN
        self._path = file.with_name(NAME)
        self.standing = rules.started(self._read())
        self._on_since = clock()
        self._process: ChildProcess | None = None
        self._deed: Any = None
        self._number = 0  # of the plan that the process is about
        self._reported: RolloutReport | None = None
        self._look_at = 0.0
        self.wants = ""  # the bundle that is to be fetched for a trial
        self._keep()

    @property
    def previous(self) -> Path:
        """The bundle that was in use before."""
        return self._file.with_name("previous.pfb")

    @property
    def busy(self) -> bool:
        """Whether a trial runs."""
        return self._process is not None

    def waiting_file(self, bundle: str) -> Path:
        """Where a bundle lies that waits for its trial."""
        return self._file.with_name(f"fleet-{bundle[:16] or 'none'}.pfb")

    def take_plan(self, payload: bytes) -> None:
        """What the fleet is to run; `WireError` if that is nothing."""
        plan = read_plan(payload) if payload else NO_PLAN
        if plan.number != self.plan.number and self._process is not None:
            self._process.terminate()
        self.plan, self._look_at = plan, 0.0

    def course(
        self, in_use: str, lineage: str, stable: ChannelState, canary: ChannelState | None
    ) -> Course:
        """Whose word counts here."""
        return rules.followed(self.standing, self._facts(in_use), stable, canary, lineage)

    @property
    def due(self) -> float:
        """When to look again."""
        watched = self.standing.step in ("trying", "running") or self.plan.number
        return self._look_at if watched else float("inf")

    def look(self, in_use: str, states: tuple[bytes, bytes], *, at_rest: bool) -> bool:
        """Do what is next; whether this device is to run something else from now on. `states` are
        the classes for what is in use, and for the candidate.
        """
        before = self.standing
        if self._process is not None:
            self._check(self._process, in_use)
        elif self.plan.number and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK
            facts = self._facts(in_use, states[1], at_rest=at_rest)
            self.standing, deed = rules.next_deed(self.standing, facts)
            self._do(deed, in_use, states)
        if self.standing != before:
            self._look_at = 0.0  # what follows from it need not wait
            self._changed(before)
        return self.standing != before

    def report(self, in_use: str, run: str, epoch: int, *, may_send: bool) -> None:
        """Say what this device runs, and how far it is; once, and again when it changes."""
        report = self.standing.report(in_use)
        before = self._reported or RolloutReport()  # who has nothing need not say so
        if may_send and report != before and self._outbound.reported(report, run, epoch):
            self._reported = report

    def connected(self) -> None:
        """Who listens may not know it."""
        self._reported = None

    def stop(self) -> None:
        """The daemon leaves."""
        if self._process is not None:
            self._process.terminate()

    def restore(self, bundle: str) -> bool:
        """The bundle that was in use before, in use again, if it is this one."""
        from protofleet.exchange import archive

        if not bundle or archive.name_of(self.previous) != bundle:
            return False
        state = cache.state_file(self.previous)
        self.previous.replace(self._file)
        with suppress(FileNotFoundError):
            state.replace(cache.state_file(self._file))
        self._log.info("another bundle", bundle=bundle[:16], what="the one before")
        return True

    # inside

    def _facts(self, in_use: str, state: bytes = b"", *, at_rest: bool = True) -> Facts:
        plan = self.plan
        here = bool(state) if plan.state else self.waiting_file(plan.bundle).exists()
        return Facts(
            plan,
            self._config.id,
            in_use,
            at_rest,
            here,
            self._clock() - self._on_since,
            read_uses(self._file),
        )

    def _do(self, deed: Any, in_use: str, states: tuple[bytes, bytes]) -> None:
        self.wants = ""
        match deed:
            case FetchCandidate():
                self.wants = "" if self.plan.state else self.plan.bundle
            case TryCandidate():
                self._begin(deed, self._trial_words(in_use, states))
            case ProveCandidate():
                self._begin(deed, [])

    def _begin(self, deed: Any, more: Sequence[str]) -> None:
        config = self._config
        words = [sys.executable, "-m", "edge_agent", "trial", "--json", *more]
        words += ["--bundle", str(self._file), "--set", f"limits.nice={config.limits.nice}"]
        for name, setting in vars(config.data).items():
            if setting != "":
                words += ["--set", f"data.{name}={setting}"]
        self._deed, self._number = deed, self.plan.number
        self._process = self._start(words)

    def _trial_words(self, in_use: str, states: tuple[bytes, bytes]) -> list[str]:
        plan, terms = self.plan, self.plan.terms
        candidate = self._file if plan.state else self.waiting_file(plan.bundle)
        words = ["--candidate", str(candidate)]
        words += [] if plan.state else ["--name", plan.bundle]
        for flag, payload in zip(("--state", "--candidate-state"), states, strict=True):
            if payload and (in_use or flag != "--state"):
                path = self._file.with_name(f"trial{flag[1:]}.cbor")
                write_whole(path, payload, lasting=False, mode=OWN_FILE)
                words += [flag, str(path)]
        words += ["--compare" if terms.compare else "--no-compare"]
        limits = {"margin": terms.margin, "slower": terms.slower, "larger": terms.larger}
        return words + [word for name, n in limits.items() for word in (f"--{name}", f"{n:.9g}")]

    def _check(self, process: ChildProcess, in_use: str) -> None:
        code = process.poll()
        if code is None:
            return
        self._process, deed = None, self._deed
        for flag in ("-state", "-candidate-state"):
            self._file.with_name(f"trial-{flag[1:]}.cbor").unlink(missing_ok=True)
        if self._number != self.plan.number or code < 0:
            return  # another plan came, or somebody ended it: what is next is looked at anew
        outcome = _outcome(report_of(process), code, last_words(process))
        if isinstance(deed, ProveCandidate):
            answers = read_uses(self._file).answers
            self.standing = rules.proved(self.standing, outcome.words, answers)
            return
        self.standing = rules.tried(self.standing, outcome)
        if self.standing.step == "running" and not self.plan.state:
            self._adopt(in_use)

    def _adopt(self, in_use: str) -> None:
        """The candidate is what is in use; what was lies beside it."""
        new = self.waiting_file(self.plan.bundle)
        if in_use:
            # A second name first: whatever happens, `fleet.pfb` is there and is one of the two.
            link = self.previous.with_name(".previous.new")
            link.unlink(missing_ok=True)
            os.link(self._file, link)
            state = cache.state_file(self._file)
            if state.exists():
                beside = cache.state_file(self.previous)
                write_whole(beside, state.read_bytes(), mode=OWN_FILE)
            link.replace(self.previous)
        new.replace(self._file)
        self._log.info("another bundle", bundle=self.plan.bundle[:16], rollout=self.plan.number)

    def _changed(self, before: RolloutStanding) -> None:
        now, plan = self.standing, self.plan
        if now.step == "running" and before.step != "running":
            self._on_since = self._clock()
        if now.step in ("refused", "back"):
            self.wants = ""
            with suppress(OSError):
                self.waiting_file(plan.bundle).unlink(missing_ok=True)
        self._keep()
        if now.step != before.step:
            say = self._log.warning if now.step == "refused" else self._log.info
            words = f": {now.words}" if now.words else ""
            say(f"rollout {now.number}: {now.step}{words}", bundle=plan.bundle[:16])

    def _keep(self) -> None:
        if not self.standing.number:
            return
        data = json.dumps(to_plain(self.standing)).encode()
        with suppress(OSError):  # then it begins anew after the next start
            write_whole(self._path, data, mode=OWN_FILE)

    def _read(self) -> RolloutStanding:
        try:
            return from_plain(RolloutStanding, json.loads(self._path.read_text()))
        except (OSError, ValueError, SettingError, TypeError):
            return RolloutStanding()


def _outcome(document: Any, code: int, words: str) -> TrialOutcome:
    """What the process printed; one that printed nothing did not pass."""
    try:
        if document:
            return from_plain(TrialOutcome, document)
    except (SettingError, WireError):
        pass
    return TrialOutcome(str(Setback.CRASH), words or f"the trial ended with {code}")
