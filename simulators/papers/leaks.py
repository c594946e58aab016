"""What uploads give away, as tables: the hijacking attack of FedMPS's section IV-H beside what the
paper says of it, and the attacks on contributions.

The figures are those that `protofleet bench attacks --keep` put beside the records; nothing is said
where none are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

FILE = "attacks.json"
Figures = Mapping[str, Any]
CLAIM = """The paper's eavesdropper reads what a device uploads, may query its network, trains a
decoder on what the network answers to public images, and makes images of the uploaded vectors
(section IV-H). It prints pictures and a curve of the reconstruction loss, no number, for FedMPS on
CIFAR-10 alone, and says that the attacker *consistently fails to reconstruct recognizable images*.
Here the same attacker meets every method that sends vectors. *As sent*: class means of some hundred
samples, as in the paper; beside it the same device with five samples a class, and with one.
SSIM is of a restored image to the likest sample behind its vector; in brackets, what the vector of
a *stranger* with other samples of that class gives, which is what the class alone tells. *Found*:
how often the sample that is nearest to the image, of all that the device has, is one of those
behind it; in brackets by chance. The loss is that on public images which the decoder was not
trained on: the paper's own measure, and no measure of what an upload of many samples tells. Cut:
the paper trains for 500 rounds and its decoder for 10,000 steps; ours are said below the table.

    protofleet bench attacks --data cifar10 --attack hijack --keep docs/results/attacks.json

(with `--rounds` and `--steps` as below)."""
HIJACK = """| method | part | numbers a vector | loss | as sent: SSIM | 5 samples: SSIM | found | \
1 sample: SSIM | found |
|---|---|---|---|---|---|---|---|---|"""
DECODER = """| samples of a class | minimum | covariance | SSIM (stranger) | found (by chance) |
|---|---|---|---|---|"""
MEMBERSHIP = """| samples | covariance | attack | area | caught at 1 % false alarms |
|---|---|---|---|---|"""
DIFFERENCE = """| samples before | said again after | cosine | … less the class's public mean | \
found (by chance) | SSIM |
|---|---|---|---|---|---|"""


def section(folder: Path | None) -> list[str]:
    """The section on the page of results; none where the attack was not run."""
    path = None if folder is None else folder / FILE
    if path is None or not path.exists():
        return []
    hijack: Figures = json.loads(path.read_text()).get("hijack", {})
    if not hijack:
        return []
    lines = ["## What uploads give away", "", CLAIM, ""]
    for data, by_seed in sorted(hijack.items()):
        lines += [*_hijack(data, by_seed), ""]
    return lines


def tables(document: Figures) -> list[str]:
    """All that a document has."""
    lines: list[str] = []
    for data, by_seed in document.get("uploads", {}).items():
        runs = [by_seed[seed] for seed in sorted(by_seed)]
        for kind, head, line in (
            ("decoder", DECODER, _restored),
            ("membership", MEMBERSHIP, _member),
            ("difference", DIFFERENCE, _difference),
        ):
            there = [run[kind] for run in runs if kind in run]
            if there:
                settings = ", ".join(f"{k} {v:g}" for k, v in there[0]["settings"].items())
                lines += [f"### {kind}, {data} ({settings}; {len(there)} seeds)", "", head]
                rows = zip(*(run["rows"] for run in there), strict=True)
                lines += [*(line(several) for several in rows), ""]
    for data, by_seed in document.get("hijack", {}).items():
        lines += [*_hijack(data, by_seed), ""]
    return lines


def _hijack(data: str, by_seed: Figures) -> Iterator[str]:
    yield f"### Hijacking, {data}"
    yield ""
    yield HIJACK
    runs = [by_seed[seed] for seed in sorted(by_seed)]
    settings, silent, whole_counts, few_counts = [], [], [], []
    for name in sorted({name for run in runs for name in run}):
        there = [run[name] for run in runs if run.get(name)]
        if not there:
            silent.append(name)
            continue
        amount = there[0]["settings"]
        settings.append((there[0]["round"], len(there), amount["steps"], there[0]["public"]))
        for parts in zip(*(run["parts"] for run in there), strict=True):
            whole = "all together" if parts[0]["part"] == "all" else parts[0]["part"]
            row = [
                name,
                whole,
                str(parts[0]["width"]),
                f"{fmean(p['loss'][-1][1] for p in parts):.4f}",
            ]
            by_samples = [{r["samples"]: r for r in part["by_samples"][:-1]} for part in parts]
            row.append(_ssim([part["by_samples"][-1] for part in parts]))
            whole_counts.append(sum(part["by_samples"][-1]["vectors"] for part in parts))
            few_counts += [r["vectors"] for rows in by_samples for r in rows.values()]
            for n in (5, 1):
                few = [rows[n] for rows in by_samples if n in rows]
                row += [_ssim(few), _share(few)] if few else ["silent", "–"]
            yield _row(row)
    yield ""
    if settings:
        rounds, seeds, steps, public = zip(*settings, strict=True)
        yield (
            f"Overheard in round {_range(rounds)}, seeds a method: {_range(seeds)}; decoders of "
            f"{_range(steps)} steps on {_range(public)} public images. As sent: means over "
            f"{_range(whole_counts)} vectors; of fewer samples over {_range(few_counts)}."
        )
    if silent:
        yield f"No vectors are sent by {', '.join(silent)}."


def _restored(several: Sequence[Figures]) -> str:
    settings, outcomes = _parts(several)
    start = [str(several[0]["samples"]), str(settings["minimum"]), settings["covariance"]]
    return _row([*start, *([_ssim(outcomes), _share(outcomes)] if outcomes else ["silent", "–"])])


def _member(several: Sequence[Figures]) -> str:
    settings, outcomes = _parts(several)
    samples = f"{several[0]['samples']} a class"
    if outcomes and "times" in several[0]:
        samples = f"{outcomes[0]['samples']:,} together, {several[0]['times']} d"
    row = [samples, settings["covariance"]]
    if not outcomes:
        return _row([*row, "–", "silent", "–"])
    area, caught = (fmean(o[key] for o in outcomes) for key in ("area", "caught"))
    return _row([*row, outcomes[0]["attack"], f"{area:.3f}", f"{100 * caught:.0f} %"])


def _difference(several: Sequence[Figures]) -> str:
    settings, outcomes = _parts(several)
    row = [str(several[0]["samples"]), str(settings["changed"])]
    if not outcomes:
        return _row([*row, "silent", "–", "–", "–"])
    cosine, centred, ssim = (fmean(o[k] for o in outcomes) for k in ("cosine", "centred", "ssim"))
    return _row([*row, f"{cosine:.3f}", f"{centred:.3f}", _share(outcomes), f"{ssim:.2f}"])


def _parts(several: Sequence[Figures]) -> tuple[Figures, list[Figures]]:
    return several[0]["defences"], [row["outcome"] for row in several if row["outcome"] is not None]


def _ssim(outcomes: Sequence[Figures]) -> str:
    ours, theirs = (fmean(o[key] for o in outcomes) for key in ("ssim", "stranger"))
    return f"{ours:.2f} ({theirs:.2f})"


def _share(outcomes: Sequence[Figures]) -> str:
    hits, chance = (100 * fmean(o[key] for o in outcomes) for key in ("retrieved", "chance"))
    return f"{hits:.0f} % ({chance:.1f})"


def _range(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _row(columns: Sequence[str]) -> str:
    return "| " + " | ".join(columns) + " |"
