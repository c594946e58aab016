"""The device bench in short: graph and network agree before and after a swap, blocks take turns."""

import numpy as np
import pytest

from edge_agent.inference.bundle import Reading
from edge_agent.inference.inputs import ready
from edge_agent.networks.net import build_net
from export import graph, verify
from simulators.speed import device


def test_the_graph_agrees_with_the_network():
    (row,) = device.agree(["cnn-mnist"], 60, lambda words: None)
    assert max(row.before, row.after) <= 1e-4
    assert row.same_class


def test_of_a_contender_s_blocks_the_fastest_counts(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(device.time, "process_time", lambda: clock.now)
    noise = iter([0.0, 5.0, 7.0] * 100)
    took = device.interleaved(
        {"steady": lambda: clock.use(0.002), "noisy": lambda: clock.use(0.001 + next(noise))},
        blocks=20,
        seconds=0.001,
    )
    assert took["steady"] == pytest.approx(2.0)
    assert took["noisy"] == pytest.approx(1.0)


def test_contenders_take_turns():
    calls = []
    device.interleaved(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, blocks=3, seconds=0
    )
    assert "".join(calls) == "aabb" + 3 * "aabb"  # a call before each block is not counted


class FakeClock:
    """Processor time that passes only where it is used."""

    now = 0.0

    def use(self, seconds):
        self.now += seconds


def test_made_up_images_are_not_noise_and_differ():
    kind = device.NETS["lenet"]
    images = device.pictures(kind, 3)
    assert (images.shape, images.dtype) == ((3, *kind.shape), np.uint8)
    assert not np.array_equal(images[0], images[1])
    steps = np.abs(np.diff(images.astype(int), axis=1)).mean()
    assert steps < images.std() / 2  # neighbours are alike


def test_a_contender_is_the_bundle_s_graph_up_to_its_features():
    kind, reading = device.NETS["cnn-mnist"], Reading("prototypes")
    net = device.lively(build_net(device.contract_of(kind), "cnn-mnist", {}, 1), kind)
    points = device.points_of(np.zeros((1, device.EMBEDDING), np.float32), 10, 1)
    inputs = ready(device.bank_of(points, 10), reading).inputs
    model = graph.to_onnx(graph.classifying(net, kind, reading), kind, inputs)
    image = device.pictures(kind, 1)
    (whole,) = verify.session(model).run(["feature"], {"image": image, **inputs})
    (stored,) = verify.session(device.stored_graph(model)).run(["feature"], {"image": image})
    np.testing.assert_array_equal(stored, whole)
