"""A tree of real coordinators on real brokers (docs/scale.md), two sites deep: what all come to
under one, whatever changes, and whoever is cut off.
"""

import pytest

from coordinator.service.control import ask
from protofleet.mqtt.broker import mosquitto
from simulators.faults.testbed import until
from simulators.trees.contributors import contributors
from simulators.trees.tree import TOP, TreeShape, seeds_of, tree

SHAPE = TreeShape(
    {"valley": TOP, "hill": "valley"},
    {TOP: ["t"], "valley": ["v", "w"], "hill": ["h", "i"]},
)
PATIENCE = 120.0


def test_devices_are_dealt_evenly():
    shape = TreeShape.of(3, 10)
    assert [len(some) for some in shape.devices.values()] == [4, 3, 3]
    assert set(shape.parents.values()) == {TOP}
    assert TreeShape.of(0, 4).devices == {TOP: shape.names[:4]}


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_a_tree_of_sites_comes_to_the_state_of_all_devices(tmp_path):
    with tree(tmp_path, SHAPE, [], signed=True) as made:
        lives = {name: made.start(name) for name in made.urls}
        devices = made.contributors()

        def whole(seeds):
            state = made.expected(seeds)
            until(lambda: made.comes_to(state), "the state of all", PATIENCE)

        with contributors(devices):
            whole(seeds_of(devices))
            by_name = {one.agent: one for one in devices}
            # A site is away while its devices and those below it say something else.
            lives["valley"].kill()
            by_name["h"].seed, by_name["v"].seed = 7, None
            ask(made.data("hill"), "forget", agent="i")
            made.start("valley")
            seeds = {name: seed for name, seed in seeds_of(devices).items() if name != "i"}
            whole(seeds)
            about = made.status("valley")["site"]
            assert (about["connected"], about["trouble"]) == (True, "")
            rows = {row["agent"]: row for row in ask(made.data(TOP), "agents")["agents"]}
            assert rows["valley"]["site"] is True
        made.judge([one for one in devices if one.agent != "i"])
