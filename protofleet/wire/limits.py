"""What the strict decoder lets through: one frozen record of sizes, checked before anything is
allocated.

The defaults fit a fleet of small devices; a fleet that needs more passes its own `Limits` to both
encode and decode.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Upper bounds for one message. Sizes are in bytes."""

    message: int = 64 * 2**20  # after reassembly
    control: int = 256 * 2**10  # messages whose body is a document
    # Maps, lists and tags inside each other, for envelope and body each. Parts need seven: parts,
    # part, arrays, {q, s}, tag 40, its list, dims or tag.
    nesting: int = 8
    # CBOR items in the envelope and in the body each: bounds the Python objects made of them.
    items: int = 65_536
    text: int = 256
    classes: int = 65_536  # class ids are below this
    per_class: int = 64  # prototypes or mixture components of one class
    dim: int = 8_192


DEFAULT = Limits()
