"""What the codec costs: our message beside protobuf, msgpack and JSON of the same upload, in bytes
and microseconds.

Everybody carries the same envelope and the same arrays and hands back numpy float32; only ours also
checks and hashes what came in. `cbor2 alone` is our format without the checks, so the difference
between the two is their price.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cbor2
import numpy as np

from protofleet import wire
from protofleet.values.prototypes import Prototypes

CLASSES, DIM = 10, 512
RAW_BYTES = CLASSES * DIM * 2
HEAD = {
    "fleet": "orchard",
    "run": "0123456789abcdef",
    "epoch": 1,
    "agent": "camera-07",
    "boot": "fedcba9876543210",
    "seq": 1234,
    "round": 17,
    "method": "fedproto",
}
BASE = bytes(range(32))


@dataclass(frozen=True)
class CodecRow:
    """One codec's size and best times; `over_raw` is what it adds to the half-precision values
    themselves.
    """

    name: str
    bytes: int
    over_raw: int
    encode_us: float
    decode_us: float


@dataclass(frozen=True)
class Codec:
    """A way to write the upload and to read it back."""

    name: str
    encode: Callable[[], bytes]
    decode: Callable[[bytes], Any]


def bench_codec(repeats: int = 30, block: int = 50) -> list[CodecRow]:
    """Minimum over `repeats` blocks of each codec; the blocks take turns, so a busy moment hits all
    alike.
    """
    codecs = _codecs(_upload())
    encoded = [codec.encode() for codec in codecs]
    best = [[float("inf"), float("inf")] for _ in codecs]
    for _ in range(repeats):
        for codec, data, times in zip(codecs, encoded, best, strict=True):
            # JSON is a thousand times slower: one call is a block of its own.
            calls = 1 if codec.name == "JSON" else block
            times[0] = min(times[0], _seconds(codec.encode, (), calls))
            times[1] = min(times[1], _seconds(codec.decode, (data,), calls))
    return [
        CodecRow(codec.name, len(data), len(data) - RAW_BYTES, 1e6 * times[0], 1e6 * times[1])
        for codec, data, times in zip(codecs, encoded, best, strict=True)
    ]


def _seconds(call: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call(*arguments)
    return (time.perf_counter() - start) / calls


def _upload() -> Prototypes:
    rng = np.random.default_rng(7)
    # Numbers that half precision holds exactly, or JSON would be charged for digits nobody sends.
    vectors = rng.normal(size=(CLASSES, DIM)).astype(np.float16).astype(np.float32)
    return Prototypes(np.arange(CLASSES), vectors, rng.integers(20, 600, CLASSES))


def _codecs(protos: Prototypes) -> list[Codec]:
    envelope = wire.Envelope(t="upload", base=BASE.hex(), **HEAD)  # type: ignore[arg-type]
    parts = {"protos": protos}
    return [
        Codec("protofleet", lambda: wire.encode(envelope, parts), wire.decode),
        Codec(
            "cbor2 alone",
            lambda: cbor2.dumps(_plain(protos)),
            lambda data: _values(cbor2.loads(data)),
        ),
        _protobuf(protos),
        *_msgpack(protos),
        Codec(
            "JSON",
            lambda: _json(protos),
            lambda data: np.array(json.loads(data)["vectors"], np.float32),
        ),
    ]


def _plain(protos: Prototypes) -> dict[str, Any]:
    assert protos.counts is not None
    return {
        **HEAD,
        "base": BASE,
        "classes": protos.classes.astype("<u1").tobytes(),
        "vectors": protos.vectors.astype("<f2").tobytes(),
        "counts": protos.counts.astype("<i8").tobytes(),
        "dims": [CLASSES, DIM],
    }


def _values(plain: dict[str, Any]) -> Any:
    return np.frombuffer(plain["vectors"], "<f2").reshape(plain["dims"]).astype(np.float32)


def _json(protos: Prototypes) -> bytes:
    assert protos.counts is not None
    arrays = {name: getattr(protos, name).tolist() for name in ("classes", "vectors", "counts")}
    return json.dumps({**HEAD, "base": BASE.hex(), **arrays}, separators=(",", ":")).encode()


def _msgpack(protos: Prototypes) -> list[Codec]:
    import msgpack

    return [
        Codec(
            "msgpack",
            lambda: msgpack.packb(_plain(protos)),
            lambda data: _values(msgpack.unpackb(data)),
        )
    ]


def _protobuf(protos: Prototypes) -> Codec:
    """A message type with the same fields, made here: a .proto file would need a compiler."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="upload.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Upload")
    types = {
        str: kinds.TYPE_STRING,
        bytes: kinds.TYPE_BYTES,
        int: kinds.TYPE_UINT64,
        list: kinds.TYPE_UINT64,
    }
    for number, (name, value) in enumerate(_plain(protos).items(), 1):
        kind = types[type(value)]
        label = kinds.LABEL_REPEATED if isinstance(value, list) else kinds.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    upload = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Upload"))

    def decode(data: bytes) -> Any:
        message = upload.FromString(data)
        return np.frombuffer(message.vectors, "<f2").reshape(tuple(message.dims)).astype(np.float32)

    return Codec("protobuf", lambda: upload(**_plain(protos)).SerializeToString(), decode)
