"""What scripts around a coordinator can tell apart by its exit code."""

import pytest

from coordinator.errors import JournalError, Superseded
from coordinator.service.control import NotRunning


@pytest.mark.parametrize(
    ("kind", "code", "exit_code"),
    [(JournalError, "journal", 1), (Superseded, "superseded", 4), (NotRunning, "not-running", 4)],
)
def test_another_coordinator_or_none_is_told_from_a_failure(kind, code, exit_code):
    error = kind("words", "a hint")
    assert (error.code, error.exit_code) == (code, exit_code)
