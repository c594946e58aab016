"""Digits under the extractor of `fleet`, and a decoder trained on their public half."""

import pytest

from simulators.attacks import decoder
from simulators.attacks.population import population
from simulators.run.config import LabConfig, Run


@pytest.fixture(scope="session")
def people():
    return population(LabConfig(Run(method="fleet", dataset="digits")), 1797)


@pytest.fixture(scope="session")
def trained(people):
    return decoder.trained(people.public.features, people.public.images, 200, 0)
