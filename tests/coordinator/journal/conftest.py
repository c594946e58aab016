"""Tests of a journal run on both engines."""

import pytest

from coordinator.journal.journal import Journal


@pytest.fixture(params=["sqlite", "postgresql"])
def journal(request):
    """Opens the journal of a folder; on a server every folder has a database of its own."""
    server = None if request.param == "sqlite" else request.getfixturevalue("postgres")
    addresses, made = {}, []

    def opened(folder, wall=lambda: 1.0, **how):
        if server is not None and folder not in addresses:
            addresses[folder] = server.database()
        made.append(Journal(folder, wall, address=addresses.get(folder, ""), **how))
        return made[-1]

    yield opened
    for each in made:
        each.close()
