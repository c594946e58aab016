"""The wire: values of the vocabulary to bytes and back, through one encoder and one strict decoder.

`decode` (a whole message), its halves `unseal` (the envelope) and `decode_body`, and `decode_parts`
are the only ways in. Each returns a value or raises `WireError`, and nothing else ever.
"""

from protofleet.wire.arrays import Precision
from protofleet.wire.limits import DEFAULT, Limits
from protofleet.wire.messages import (
    DOCUMENT_TYPES,
    LETTER_TYPES,
    PART_TYPES,
    TYPES,
    VERSION,
    Envelope,
    Message,
    decode,
    decode_body,
    enclose,
    encode,
    readdressed,
    unseal,
)
from protofleet.wire.parts import as_received, decode_parts, digest, encode_parts
from protofleet.wire.templates import ReceiptTemplate, Templates

__all__ = [
    "DEFAULT",
    "DOCUMENT_TYPES",
    "LETTER_TYPES",
    "PART_TYPES",
    "TYPES",
    "VERSION",
    "Envelope",
    "Limits",
    "Message",
    "Precision",
    "ReceiptTemplate",
    "Templates",
    "as_received",
    "decode",
    "decode_body",
    "decode_parts",
    "digest",
    "enclose",
    "encode",
    "encode_parts",
    "readdressed",
    "unseal",
]
