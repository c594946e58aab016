"""A small fleet, ready to train."""

import pytest

from edge_agent.training.context import settle
from simulators.run.setup import prepare


@pytest.fixture
def setup(small_lab):
    made = prepare(small_lab())
    settle(made.contract.numerics)
    return made
