"""Somebody who may write a fleet's channels: names bundles, and serves their bytes to whoever asks.

What he offers is well packed and its hashes are right; what is wrong lies deeper.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from protofleet import wire
from protofleet.errors import WireError
from protofleet.exchange import archive, published
from protofleet.exchange.archive import MODEL, PROTOTYPES, SELFTEST
from protofleet.mqtt.address import Address
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Arrival
from protofleet.mqtt.link.link import Link, LinkSettings
from protofleet.mqtt.topics import TopicParts, Topics
from protofleet.wire import Envelope
from simulators.faults.bundle_mutations import Files, hashes, manifest, name_of, packed, sound

CHUNK = 100_000


class Intruder:
    """One connection, and whatever is offered on it."""

    def __init__(self, url: str, fleet: str) -> None:
        self._topics = Topics(fleet)
        settings = LinkSettings(clean_start=True, session_expiry=0)
        name = f"intruder-{secrets.token_hex(4)}"
        self._link = Link(Address.parse(url), name, settings, rng=random.Random(0))
        self._link.subscribe([(self._topics.chunk_request("+"), 1)])
        self._blobs: dict[str, OutgoingBlob] = {}
        self._bodies: dict[str, tuple[Envelope, bytes]] = {}  # the first of each device
        self.repeated = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._link.start()
        self._thread.start()

    def say(self, topic: str, envelope: Envelope, body: Any) -> None:
        """Anything, retained."""
        self._link.publish(topic, wire.encode(envelope, body), retain=True)

    def offer(self, data: bytes, lineage: str) -> None:
        """A bundle on the channel that devices follow, with a state that names it."""
        name = name_of(data)
        blob = OutgoingBlob(data, CHUNK)
        self._blobs[blob.descriptor.digest] = blob
        head = Envelope("slip", self._topics.fleet, "trial", epoch=1, round=0)
        body = {**blob.descriptor.body(), "of": "bundle", "bundle": name}
        self.say(self._topics.bundle(published.STABLE), head, body)
        state = published.read(sound(lineage)[PROTOTYPES]).bank
        about = replace(state.about, bundle=name)
        message = published.write(replace(state, about=about), replace(head, t="global"))
        self._link.publish(self._topics.proto(published.STABLE), message, retain=True)

    def repeat(self, agents: Sequence[str]) -> None:
        """From now on say an upload of these devices' again for each round that opens, before they
        do: its bytes in a new envelope.
        """
        filters = [self._topics.upload(agent, 0).rpartition("/")[0] + "/+" for agent in agents]
        self._link.subscribe([(self._topics.round, 1), *((topic, 1) for topic in filters)])

    def leave(self) -> None:
        """No more of him."""
        self._stop.set()
        self._link.wake()
        self._thread.join(5.0)
        self._link.stop(patience=1.0)

    def _serve(self) -> None:
        while not self._stop.is_set():
            for event in self._link.poll(0.2):
                if isinstance(event, Arrival):
                    self._answer(event)
                    self._link.ack(event)

    def _answer(self, event: Arrival) -> None:
        place = self._topics.parse(event.topic)
        try:
            if place is not None and place.kind in ("round", "upload"):
                self._overheard(place, event.payload)
                return
            body = wire.decode(event.payload).body
        except WireError:
            return
        blob = self._blobs.get(str(body.get("digest")))
        if place is None or place.agent is None or blob is None:
            return
        for first, last in body["missing"]:
            for index in range(first, last + 1):
                topic = self._topics.own_chunk(place.agent, blob.descriptor.digest, index)
                self._link.publish(topic, blob.chunk(index))

    def _overheard(self, place: TopicParts, payload: bytes) -> None:
        envelope, body = wire.unseal(payload)
        if place.kind == "upload" and place.agent is not None:
            self._bodies.setdefault(place.agent, (envelope, body))
            return
        # A coordinator hears what comes first.
        for agent, (head, old) in self._bodies.items():
            number = envelope.round
            if number is not None and number != head.round:
                new = replace(head, round=number, base=envelope.base, epoch=envelope.epoch)
                self._link.publish(self._topics.upload(agent, number), wire.enclose(new, old))
                self.repeated += 1


def outside(files: Files) -> Files:
    """Weights that are a file of the machine's."""

    def change(model: onnx.ModelProto) -> None:
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", "proc/self/environ"

    return {**files, MODEL: _with(files[MODEL], change)}


def endless(files: Files) -> Files:
    """A loop whose condition is always true."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Identity", ["s"], ["t"]),
        ],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("s", TensorProto.FLOAT, ["n", "p"]),
        ],
        [value("on", TensorProto.BOOL, []), value("t", TensorProto.FLOAT, ["n", "p"])],
    )
    loop = helper.make_node("Loop", ["", "yes", "before"], ["score"], body=body)
    return {**files, MODEL: _with(files[MODEL], lambda model: _behind(model, loop))}


def swollen(files: Files) -> Files:
    """A number that becomes 16 GiB of them."""
    nodes = [
        helper.make_node("Expand", ["one", "sizes"], ["large"]),
        helper.make_node("ReduceMax", ["large"], ["most"], keepdims=0),
        helper.make_node("Add", ["before", "most"], ["score"]),
    ]

    def change(model: onnx.ModelProto) -> None:
        for name, array in (("one", np.ones(1, np.float32)), ("sizes", np.array([1 << 32]))):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        _behind(model, *nodes)

    return {**files, MODEL: _with(files[MODEL], change)}


def announced(files: Files) -> Files:
    """A self-test of one TiB, by its header."""
    text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
    array = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text
    return {**files, SELFTEST: archive.pack({"image.npy": array, "score.npy": array})}


def bomb(files: Files) -> Files:
    """A file of 512 MiB that is half a megabyte."""
    return {**files, "report.json": bytes(512 << 20)}


def large(files: Files) -> Files:
    """Noise, as much as a network of some size."""
    return {**files, "report.json": random.Random(0).randbytes(40 << 20)}


# What is offered, and a word of the line by which it is to be refused.
OFFERS: Mapping[str, tuple[Callable[[Files], Files], Mapping[str, Any], str]] = {
    "weights from outside": (outside, {}, "external data"),
    "an endless loop": (endless, {}, "Loop"),
    "16 GiB of one number": (swollen, {}, "MB of memory"),
    "a self-test of a TiB": (announced, {}, "selftest.npz"),
    "a zip bomb": (bomb, {}, "unpack to"),
    "40 MiB of tomorrow's": (large, {"schema": "protofleet-bundle/2"}, "schema"),
    "a tolerance of its own": (dict, {"tolerance": 1e30}, "tolerance"),
}


def offered(what: str, lineage: str) -> bytes:
    """One of `OFFERS`, packed."""
    change, settings, _ = OFFERS[what]
    files = change(sound(lineage))
    return packed(files, {**manifest(files, lineage), **settings, "files": hashes(files)})


def _with(data: bytes, change: Callable[[onnx.ModelProto], None]) -> bytes:
    model = onnx.load_from_string(data)
    change(model)
    written: bytes = model.SerializeToString()
    return written


def _behind(model: onnx.ModelProto, *nodes: onnx.NodeProto) -> None:
    """Between what the scores were and what they are from now on."""
    (last,) = (node for node in model.graph.node if "score" in node.output)
    last.output[0] = "before"
    model.graph.node.extend(nodes)
