"""Whole messages: an envelope that says who speaks about what, around a body that is hashed as
received.

A body is either parts (numbers, `protofleet.wire.parts`) or a document (plain maps, lists, text and
numbers); the message's type says which.
"""

# Theory of operation
#
# A message is one CBOR map: the envelope's fields, `v` (the version of all this), and `body`, a
# byte string under tag 24 that is CBOR in itself:
#
#     {v: 1, t: "upload", fleet: "orchard", run: …, epoch: 3, …, base: h'…', body: 24(h'…')}
#
# The body is a string of bytes and not simply a map, because it is hashed as it travelled. Its
# sha256 is the upload's name: in the journal, in the receipt, in a device's outbox. A device sends
# the same body again under another envelope (a coordinator that came back has a higher epoch), and
# it is still the same upload. Nobody ever encodes a body anew in order to hash it.
#
# So there are three ways in. `decode` opens everything. `unseal` opens the envelope and leaves the
# body closed, for whoever keeps it (a device puts a state into its store and lets the training
# process open it), passes it on, or first has to see whose it is. `decode_body` then opens what
# `unseal` left, so that nobody walks an envelope twice.
#
# Which fields an envelope must have depends on who reads it, so only `v`, `t`, `fleet` and `body`
# are required here; what is absent is None and never an empty text. The reader of a type checks the
# rest where it uses it (`coordinator.uploads.validation.identity`, `edge_agent.daemon.inbound`).
# A field that no envelope has is refused: within one version nobody may mean something by it.
#
# Bodies are parts (`PART_TYPES`: arrays, held to the vocabulary's rules) or a document
# (`DOCUMENT_TYPES`: plain values, at most `limits.control` bytes with their envelope, because these
# are read by everyone who gets them). A document is copied into plain values on the way in: what
# leaves `decode` holds no tags, no bytes, no −0.0 and nothing that is not finite.
#
# A third kind of body is neither: letters of a masked sum (`LETTER_TYPES`) are left closed here, as
# what is in them means nothing without the protocol that they are of.
#
# A large message travels as a `slip` in its place, a document that names its digest and size; it is
# put together again before it comes here (`protofleet.mqtt.blobs`).

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any, NamedTuple

from cbor2 import CBORTag

from protofleet.errors import WireError
from protofleet.wire import strict
from protofleet.wire.arrays import Precision
from protofleet.wire.limits import DEFAULT, Limits
from protofleet.wire.parts import NONE, decode_parts, encode_parts
from protofleet.wire.strict import shown
from protofleet.wire.templates import Templates

VERSION = 1
PART_TYPES = frozenset({"global", "own", "upload", "enrol"})
DOCUMENT_TYPES = frozenset(
    {
        "birth",
        "state",
        "round",
        "receipt",
        "report",
        "desired",
        "reported",
        "command",
        "ack",
        "slip",
    }
)
# What a group of devices and its coordinator say for a masked sum (`protofleet.masking.letters`).
LETTER_TYPES = frozenset({"group", "letter"})
TYPES = PART_TYPES | DOCUMENT_TYPES | LETTER_TYPES


@dataclass(frozen=True)
class Envelope:
    """Who speaks about what. `t` is the type, `base` the hex sha256 of the shared state the body
    builds on.
    """

    t: str
    fleet: str
    run: str | None = None
    epoch: int | None = None
    agent: str | None = None
    boot: str | None = None
    seq: int | None = None
    round: int | None = None
    method: str | None = None
    base: str | None = None


class Message(NamedTuple):
    """What the decoder lets in: `body` is Parts or a document, by the envelope's type; `digest` is
    over its bytes.
    """

    envelope: Envelope
    body: Any
    digest: str


# What an envelope's field holds, read off the dataclass.
TEXTS = frozenset(f.name for f in fields(Envelope) if str(f.type).startswith("str"))
NUMBERS = frozenset(f.name for f in fields(Envelope)) - TEXTS


def encode(
    envelope: Envelope,
    body: Any,
    precision: Precision = "half",
    exceptions: Mapping[str, Precision] = NONE,
    limits: Limits = DEFAULT,
) -> bytes:
    """Bytes that `decode` accepts under the same limits, or a `WireError`."""
    if envelope.t in PART_TYPES:
        content = encode_parts(body, precision, exceptions, limits, where=f"{envelope.t}.parts")
    elif envelope.t in LETTER_TYPES:
        if not isinstance(body, bytes):
            raise WireError(f"{envelope.t}.body: a letter's bytes are due")
        content = body
    else:
        content = strict.dump(
            _document(body, f"{envelope.t}.body", limits), limits, f"{envelope.t}.body"
        )
    return enclose(envelope, content, limits)


def enclose(envelope: Envelope, content: bytes, limits: Limits = DEFAULT) -> bytes:
    """A message around a body that was encoded before: an upload goes out again under a newer
    envelope.
    """
    head: dict[str, Any] = {
        name: value for name, value in vars(envelope).items() if value is not None
    }
    if envelope.base is not None:
        head["base"] = _hash_bytes(envelope.base)
    _envelope(head)
    data = strict.dump({"v": VERSION, **head, "body": CBORTag(24, content)}, limits, envelope.t)
    _check_size(data, envelope.t, limits)
    return data


def readdressed(
    data: bytes, agent: str, fleet: str, run: str | None, limits: Limits = DEFAULT
) -> bytes:
    """The same body, said by this device of this fleet."""
    envelope, content = unseal(data, limits)
    return enclose(replace(envelope, agent=agent, fleet=fleet, run=run or None), content, limits)


def decode(data: bytes, limits: Limits = DEFAULT, templates: Templates | None = None) -> Message:
    """The one way in: a checked message, or `WireError` and nothing else ever. `templates` as in
    `decode_parts`.
    """
    opened = None if templates is None else _reopened(data, limits, templates)
    envelope, body = opened or unseal(data, limits, templates)
    content = decode_body(envelope, body, limits, templates)
    return Message(envelope, content, sha256(body).hexdigest())


def decode_body(
    envelope: Envelope, body: bytes, limits: Limits = DEFAULT, templates: Templates | None = None
) -> Any:
    """What `unseal` left closed: Parts, a document or a letter's bytes, by the envelope's type; or
    `WireError`.
    """
    if envelope.t in LETTER_TYPES:
        return body
    if envelope.t in PART_TYPES:
        return decode_parts(body, limits, f"{envelope.t}.parts", templates)
    path = f"{envelope.t}.body"
    return _document(strict.load(body, limits, path), path, limits)


def unseal(
    data: bytes, limits: Limits = DEFAULT, templates: Templates | None = None
) -> tuple[Envelope, bytes]:
    """The checked envelope and the body as it travelled: for those who only keep it or pass it on,
    or decide by the envelope whether they want it (`decode_body`).
    """
    # Signed messages (COSE_Sign1, tag 18) are opened here: by policy, `data` becomes the payload
    # whose signature held.
    raw = strict.flat(data, limits) or strict.load(data, limits, "message")
    if not isinstance(raw, dict):
        raise WireError("message: not a map")
    version, body = raw.pop("v", None), raw.pop("body", None)
    if type(version) is not int or version != VERSION:
        raise WireError(f"message.v: version {_named(version)} is not spoken here, only {VERSION}")
    envelope = _envelope(raw)
    _check_size(data, envelope.t, limits)
    if not isinstance(body, CBORTag) or body.tag != 24:
        raise WireError(f"{envelope.t}.body: not embedded CBOR (tag 24)")
    if templates is not None and envelope.t in PART_TYPES:
        templates.learn_envelope({"v": version, **raw, "body": body}, vars(envelope), limits)
    return envelope, body.value


def _reopened(data: bytes, limits: Limits, templates: Templates) -> tuple[Envelope, bytes] | None:
    """The same for a message whose envelope is like the newest that was let in."""
    found = templates.open(data, limits)
    if found is None:
        return None
    common, blanks = found
    body = blanks.pop("body")
    # All fields at once: a frozen dataclass sets its own one by one, and this is every upload's.
    envelope = object.__new__(Envelope)
    vars(envelope).update(common, **blanks)
    return envelope, body


def _envelope(raw: Mapping[str, Any]) -> Envelope:
    """Check an envelope as it travels (`base` in bytes)."""
    kind = raw.get("t")
    if not isinstance(kind, str) or kind not in TYPES:
        raise WireError(f"message.t: {_named(kind)} is no message type")
    if "fleet" not in raw:
        raise WireError(f"{kind}.fleet: missing")
    head = dict(raw)
    for name, value in raw.items():
        if name in NUMBERS:
            if type(value) is not int or value < 0:
                raise WireError(f"{kind}.{name}: not a whole number from 0 up")
        elif name not in TEXTS:
            raise WireError(f"{kind}.{shown(name)}: envelopes have no such key")
        elif name == "base":
            if not isinstance(value, bytes) or len(value) != 32:
                raise WireError(f"{kind}.base: not the 32 bytes of a sha256")
            head["base"] = value.hex()
        elif not isinstance(value, str) or not value:
            raise WireError(f"{kind}.{name}: not a text, or an empty one")
    return Envelope(**head)


def _hash_bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        raise WireError(f"message.base: {_named(text)} is not hexadecimal") from None


def _named(value: Any) -> str:
    """A value in an error: itself if it is short by nature, else only what it is."""
    return shown(str(value)) if isinstance(value, (str, int)) else f"of type {type(value).__name__}"


def _check_size(data: bytes, kind: str, limits: Limits) -> None:
    if kind in DOCUMENT_TYPES and len(data) > limits.control:
        raise WireError(
            f"{kind}: {len(data)} bytes, at most {limits.control} are allowed for control messages"
        )


def _document(value: Any, where: str, limits: Limits) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise WireError(f"{where}: not a map")
    plain: dict[str, Any] = _plain(value, where, limits.nesting)
    return plain


def _plain(value: Any, where: str, depth: int) -> Any:
    """A private copy made of plain values only."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise WireError(f"{where}: a whole number does not fit 64 signed bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WireError(f"{where}: {value} is not finite")
        return float(value) + 0.0  # −0.0 becomes 0.0
    if depth == 0:
        raise WireError(f"{where}: nested too deep")
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise WireError(f"{where}: a key is {type(key).__name__}, not text")
            plain[key] = _plain(item, f"{where}.{shown(key)}", depth - 1)
        return plain
    raise WireError(f"{where}: {type(value).__name__} is no plain value of a document")
