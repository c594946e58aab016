"""Classification on a device: numpy and onnxruntime; prototypes, and whole bundles, are replaced
while it runs.

A classification reads one reference to an immutable value, so it sees the old prototypes or the new
ones, of the old extractor or the new one, and never a mixture. New prototypes cost microseconds, a
new bundle is a session to build.
"""

# Theory of operation
#
# There is one mutable thing, the reference `_in_use`, and it points at values that never change:
#
#   InUse
#     engine   the bundle's graph in a session, its drift and calibration     a bundle's life
#     loaded   a bank of points as the graph's inputs, labels, threshold      a state's life
#     prior    what the device labelled, if that is to count                  until `expect`
#
# A classification reads that reference once and works on what it got until its answer is whole.
# Python assigns a reference in one step, so a reader takes no lock and sees either what was or what
# is, and an Answer's labels, scores and threshold are always of one state and one extractor. An old
# value lives as long as the last call that reads it.
#
# Who replaces it builds the new value first, aside, and assigns it last:
#
#   use, swap   points for the same extractor    load (microseconds), under the lock
#   change      another bundle with its points   build and self-test a session (far longer) without
#                                                the lock, then assign under it
#
# What fails on the way (other lineage, wrong width, failing self-test) has changed nothing.
#
# The lock is between writers alone. `use` needs it because it reads what is in use and writes a
# part of it: without, a bundle that came in between would be undone, and its points loaded into the
# graph of another. `change` holds it for the assignment only, so that fresh prototypes for the
# running bundle need not wait for a session to be built; they are lost with that bundle, as the
# new one comes with points of its own.
#
# Who asks twice about one thing (photos read at a bundle's size, then looked at) takes `in_use`
# once and asks that: in between, the classifier may have become another.

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

# Before numpy is imported: its linear algebra starts threads, which costs more than all that is
# done with it here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from edge_agent.inference.bundle import Bundle, open_bundle
from edge_agent.inference.inputs import Scores
from edge_agent.inference.session import Answer, Engine, Images, Loaded, Mismatch, built
from protofleet.errors import WireError
from protofleet.exchange import published
from protofleet.exchange.published import Bank
from protofleet.statistics.prior import OwnPrior
from protofleet.util.allocator import room_to_load
from protofleet.values.prototypes import Floats

__all__ = ["Answer", "Classifier", "InUse", "Loaded", "Mismatch", "OwnPrior"]


@dataclass(frozen=True, eq=False)
class InUse:
    """Everything that one classification reads; replaced as a whole."""

    engine: Engine
    loaded: Loaded
    prior: OwnPrior | None = None

    @property
    def bundle(self) -> Bundle:
        """Whose extractor it is, without the graph's bytes."""
        return self.engine.bundle

    def look(self, images: Images) -> Answer:
        """What is seen in samples."""
        return self.engine.look(images, self.loaded, self.prior)


class Classifier:
    """A bundle in use. Any number of threads may classify while another swaps prototypes, or the
    bundle. With `unknown` what is like no class has no label; with a prior what a device labelled
    often is likely beforehand, where a fleet calibrated its scores.
    """

    def __init__(
        self,
        bundle: Bundle | Path | str,
        *,
        threads: int = 1,
        unknown: bool = False,
        check: bool = True,
        prior: OwnPrior | None = None,
    ) -> None:
        self.unknown, self._threads = unknown, threads
        with room_to_load():
            bundle = bundle if isinstance(bundle, Bundle) else open_bundle(Path(bundle))
            engine = built(bundle, threads, unknown=unknown, check=check)
            state = bundle.published
            loaded = engine.load(state.bank, state.digest)
            engine.must_tell_unknown(loaded)
            self._in_use = InUse(engine, loaded, prior)
            del bundle  # the graph's bytes: the engine keeps the bundle without them
        self._swapping = Lock()

    @property
    def in_use(self) -> InUse:
        """Extractor and classes as they stand: one immutable value, for whoever asks more than
        once.
        """
        return self._in_use

    @property
    def bundle(self) -> Bundle:
        """The bundle as it stands."""
        return self._in_use.bundle

    @property
    def loaded(self) -> Loaded:
        """The classes as they stand."""
        return self._in_use.loaded

    def classify(self, images: Images) -> tuple[list[str | None], Scores]:
        """A label for each sample (None: unknown), and the scores of every class that has
        points.
        """
        answer = self.look(images)
        return answer.best, answer.scores

    def look(self, images: Images) -> Answer:
        """The same with everything that stands behind it."""
        return self._in_use.look(images)

    def embed(self, images: Images) -> Floats:
        """Features alone."""
        return self.look(images).features

    def swap(self, payload: bytes) -> str:
        """Classify by these prototypes from the next call on; what does not fit is refused and
        nothing changes.
        """
        try:
            state = published.read(payload)
        except WireError as error:
            raise Mismatch(f"these are no prototypes: {error.words}") from None
        return self.use(state.bank, state.digest)

    def use(self, bank: Bank, state: str) -> str:
        """The same of a bank that was made here."""
        with self._swapping:
            now = self._in_use
            self._in_use = replace(now, loaded=now.engine.load(bank, state))
        return state

    def expect(self, prior: OwnPrior | None) -> None:
        """From the next call on these classes are likely beforehand."""
        with self._swapping:
            self._in_use = replace(self._in_use, prior=prior)

    def change(self, bundle: Bundle, bank: Bank | None = None, state: str = "") -> None:
        """Classify with another bundle from the next call on, once it stands and tests itself; else
        nothing changes.
        """
        engine = built(bundle, self._threads, unknown=self.unknown)
        own = bundle.published
        loaded = engine.load(own.bank, own.digest) if bank is None else engine.load(bank, state)
        with self._swapping:
            self._in_use = InUse(engine, loaded, self._in_use.prior)
