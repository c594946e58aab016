"""What a caller says of an extractor, and how samples are to be fed to it: size and scale, never
guessed. Vectors and series are fed as they are where no scale is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from protofleet.contract import Input, Kind
from protofleet.errors import UsageError

Size = tuple[int, int]  # height, width
Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation of pixels in 0 to 1

HALF: Scale = ((0.5,), (0.5,))
SCALES: Mapping[str, Scale] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": HALF,
    "0..1": ((0.0,), (1.0,)),
    "0..255": ((0.0,), (1 / 255,)),
}
LARGEST = 4.0  # of a mean or deviation of pixels in 0 to 1
_NUMBERS = re.compile(r"[1-9]\d{0,4}(x[1-9]\d{0,3})?")
_SIZE = re.compile(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?")


@dataclass(frozen=True)
class SourceTerms:
    """A source and the caller's words; what is None or empty is the source's own, if it has it."""

    source: str
    weights: str = ""
    output: str = ""
    layout: str = ""
    size: Size | None = None
    channels: int = 3
    scale: Scale | None = None
    seed: int = 0
    numbers: Input | None = None  # of vectors or series: what a sample is, in place of all above

    def input(self, size: int | None, scale: Scale | None) -> Input:
        """With a source's own size and scale, where it has them and the caller names no others."""
        sides = self.size or (size and (size, size))
        if not sides:
            raise UsageError(f"{self.source} has no image size of its own", "--size, such as 224")
        return fed(self.source, (*sides, self.channels), self.scale or scale)


def fed(what: str, shape: tuple[int, int, int], scale: Scale | None) -> Input:
    """Images of this shape under this scale, which has a number for all channels or for each."""
    if scale is None:
        raise UsageError(
            f"{what} does not say how its pixels are scaled",
            f"--scale {', '.join(SCALES)}, or mean/deviation in numbers",
        )
    mean, std = (numbers * shape[2] if len(numbers) == 1 else numbers for numbers in scale)
    if len(mean) != shape[2] or len(std) != shape[2]:
        raise UsageError(f"{what} takes {shape[2]} channels, the scale has numbers for {len(mean)}")
    return Input("image", shape, mean, std)


def numbers(kind: Kind, size: str, scale: str) -> Input:
    """Vectors of `13` numbers, or series of `200x6`: moments by channels."""
    shape = tuple(int(side) for side in size.split("x")) if _NUMBERS.fullmatch(size) else ()
    if len(shape) != (1 if kind == "vector" else 2):
        raise UsageError(
            f"--size {size or 'nothing'!r} is no size of a {kind}",
            "13 for vectors, and moments by channels for series: 200x6",
        )
    if not scale:
        return Input(kind, shape)
    try:
        mean, std = (tuple(float(n) for n in part.split(",")) for part in scale.split("/"))
    except ValueError:
        raise UsageError(
            f"--scale {scale[:60]!r} of a {kind} is mean/deviation in numbers"
        ) from None
    mean, std = (each * shape[-1] if len(each) == 1 else each for each in (mean, std))
    if not len(mean) == len(std) == shape[-1]:
        raise UsageError(f"--scale has {len(mean)} and {len(std)} numbers, {shape[-1]} are due")
    return Input(kind, shape, mean, std)


def size_of(text: str) -> Size:
    """`224`, or height by width: `192x256`."""
    sides = _SIZE.fullmatch(text)
    if sides is None:
        raise UsageError(f"--size {text!r} is no size", "224, or height by width: 192x256")
    return int(sides[1]), int(sides[2] or sides[1])


def scale_of(text: str) -> Scale:
    """A name, or `mean/deviation` of pixels in 0 to 1, each one number or one a channel."""
    if text in SCALES:
        return SCALES[text]
    try:
        mean, std = (tuple(float(n) for n in part.split(",")) for part in text.split("/"))
        Input("image", (1, 1, len(mean)), mean, std * len(mean) if len(std) == 1 else std)
    except (ValueError, UsageError):
        raise UsageError(
            f"--scale {text!r} is none of {', '.join(SCALES)}",
            "in numbers: mean/deviation, such as 0.5,0.5,0.5/0.25,0.25,0.25",
        ) from None
    if max(map(abs, (*mean, *std))) > LARGEST:
        raise UsageError(f"--scale {text!r} is of pixels up to 255", "divide its numbers by 255")
    return mean, std * len(mean) if len(std) == 1 else std


def shown(kind: Input) -> str:
    """How it is fed, as a person reads it."""
    if kind.kind != "image":
        size = "×".join(map(str, kind.shape))
        what = "vectors" if kind.kind == "vector" else "series"
        return f"{what} of {size} numbers, {'scaled' if kind.mean else 'as they are'}"
    height, width, channels = kind.shape
    colours = {1: "grey", 3: "RGB", 4: "RGBA"}.get(channels, f"{channels} channels")
    size = f"{height}×{width} {colours}"
    if not kind.mean:
        return f"{size}, pixels as they are stored"
    for name, (mean, std) in SCALES.items():
        whole = [n * channels if len(n) == 1 else n for n in (mean, std)]
        if [kind.mean, kind.std] == whole:
            return f"{size}, scale {name}"
    means, stds = (", ".join(dict.fromkeys(f"{n:.4g}" for n in ns)) for ns in (kind.mean, kind.std))
    return f"{size}, scale ({means}) / ({stds})"
