"""Two bundles beside each other, each in a process of its own: what ends one is an answer, too."""

import os
import signal

import numpy as np
import pytest

from edge_agent.trials import comparison
from edge_agent.trials.comparison import Showing, TrialSide, figures_of, run
from edge_agent.trials.specimens import TrialPicture
from simulators.rollouts.staged import digits
from simulators.rollouts.variants import write_variant


def pictures(count=12, light=1.0):
    x, y = digits()
    return [
        TrialPicture(
            str(n), str(y[n]), n % 2 == 0, lambda kind, n=n: (x[n] * light).astype(np.uint8)
        )
        for n in range(count)
    ]


def test_what_ends_on_these_pictures_is_a_crash(tmp_path):
    first = run(TrialSide(write_variant("first", tmp_path / "a.pfb", "f")), pictures(), None)
    assert (first.reason, len(first.answers)) == ("", 12)
    assert first.bytes > 10 << 20
    # Without limits: this process has more in memory than a device's would.
    bad = run(TrialSide(write_variant("crashing", tmp_path / "b.pfb", "f")), pictures(), None)
    assert bad.reason == "crash"
    assert bad.words.startswith("the graph cannot be run")
    slow = run(TrialSide(write_variant("slow", tmp_path / "c.pfb", "f")), pictures(), None)
    assert slow.seconds > 10 * first.seconds
    none = run(TrialSide(tmp_path / "none.pfb"), pictures(), None)
    assert none.reason == "crash"


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGUSR1, "ended with SIGUSR1"), (signal.SIGKILL, "more time")]
)
def test_a_process_that_is_killed_says_so(monkeypatch, tmp_path, number, words):
    def dies(*_):
        os.kill(os.getpid(), number)

    monkeypatch.setattr(comparison, "_shown", dies)
    outcome = run(TrialSide(tmp_path / "x.pfb"), [], None)
    assert outcome.reason == "crash"
    assert words in outcome.words


def test_figures_are_of_what_either_can_name():
    shown = pictures(4)
    labels = [picture.label for picture in shown]
    shown.append(TrialPicture("q", None, False, shown[0].read))
    shown.append(TrialPicture("z", "of neither", False, shown[0].read))
    before = Showing((labels[0], labels[1], "x", None, "a", "b"))
    after = Showing((labels[0], "x", labels[2], labels[3], "a", "c"))
    figures = figures_of(shown, before, after)
    assert (figures.pictures, figures.alike, figures.samples, figures.kept) == (6, 2, 4, 2)
    assert (figures.before, figures.after, figures.better, figures.worse) == (2, 3, 2, 1)
