"""All attacks, one after the other, into one document for programs and for the page of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from protofleet import registry
from protofleet.errors import DataError, UsageError
from protofleet.util.files import write_whole
from simulators.attacks import decoder, difference, membership, restoring
from simulators.attacks.decoder import Say
from simulators.attacks.defences import HELD_BACK, OPEN, Defences
from simulators.attacks.hijacking import Hijack, hijacked
from simulators.attacks.population import Population, population
from simulators.papers import protocols
from simulators.papers.cell import changed
from simulators.run.config import LabConfig, Run

ON_UPLOADS = ("decoder", "membership", "difference")
KINDS = ("hijack", *ON_UPLOADS)
Plain = dict[str, Any]
_MASKED, _OFF = (replace(OPEN, covariance=way) for way in ("masked", "off"))
_FEW, _SPANNED = (1, 2, 5, 20), (5, 20, 100)  # samples a class
_GROUPS = (2, 8, 32)  # times d, samples of a masked group
_GROUPED = 20  # samples a class of the devices in it


@dataclass(frozen=True)
class AttackOptions:
    """How much is done; what a figure was made with stands beside it."""

    rounds: int = 20  # of a method before its upload is overheard
    steps: int = 3000  # of a decoder for the hijacking attack; the paper: 10,000
    public: int = 8000  # images that decoder is trained on
    images: int = 40_000  # half of them public, for the attacks on contributions
    upload_steps: int = 6000  # of the decoder for these
    uploads: int = 100  # restored, and devices whose two contributions differ
    devices: int = 20  # asked for their members
    groups: int = 3


def protocol(data: str) -> LabConfig:
    """The paper's own on CIFAR-10; on other sets as near as they allow."""
    if data == "cifar10":
        return protocols.CIFAR
    if data == "digits":
        # 1,797 images of 64 pixels: some are to be left to the public.
        return changed(
            protocols.CIFAR,
            dataset=data,
            backbone="mlp",
            augment="none",
            agents=3,
            shots=20,
            test_shots=5,
        )
    return changed(protocols.FASHION, dataset=data)


def hijack(data: str, methods: Sequence[str], seed: int, options: AttackOptions, say: Say) -> Plain:
    """The hijacking attack on every method of these; None where one sends no vectors."""
    amount = Hijack(options.steps, options.public)
    results: Plain = {}
    for name in methods:
        recipe = registry.load(name)
        config = changed(
            protocol(data),
            method=name,
            rounds=options.rounds,
            seed=seed,
            eval_every=options.rounds,
            # What no shard holds is public; held back for validation it would be a device's.
            validation=0.0,
        )
        if recipe.traits.backbone:  # a method that brings its extractor is attacked through it
            config = changed(config, backbone="")
        outcome = hijacked(config, amount, _of(name, say))
        # That a method sends none is a finding, too.
        results[name] = outcome and {**asdict(outcome), "settings": asdict(amount)}
    return _plain(results)


def on_uploads(
    data: str, kinds: Sequence[str], seed: int, options: AttackOptions, say: Say
) -> Plain:
    """What one contribution tells under the extractor of `fleet`, before and after defences."""
    say("looking at images")
    people = population(LabConfig(Run(method="fleet", dataset=data, seed=seed)), options.images)
    if not people.enough_for(min(_SPANNED)):
        raise DataError(f"{data}: too few images of some class to be attacked", "more --images")
    document: Plain = {}
    settings: Plain = {
        "public": len(people.public.labels),
        "private": len(people.private.labels),
        "width": people.width,
    }
    if "membership" in kinds:
        rows = _members(people, options, say)
        document["membership"] = {"settings": settings, "rows": rows}
    if not {"decoder", "difference"} & set(kinds):
        return _plain(document)
    trained = decoder.trained(
        people.public.features, people.public.images, options.upload_steps, seed, say
    )
    settings = {**settings, "steps": options.upload_steps, "loss": trained.curve[-1][1]}
    if "decoder" in kinds:
        rows = [
            _row(n, d, restoring.restored(people, trained, n, options.uploads, d))
            for n in _FEW
            if people.enough_for(n)
            for d in (OPEN, _OFF, HELD_BACK)
        ]
        document["decoder"] = {"settings": settings, "rows": rows}
    if "difference" in kinds:
        rows = [
            _row(n, d, difference.differences(people, trained, n, options.uploads, d))
            for n in _SPANNED
            if people.enough_for(n)
            for d in (OPEN, HELD_BACK)
        ]
        document["difference"] = {"settings": settings, "rows": rows}
    return _plain(document)


def _members(people: Population, options: AttackOptions, say: Say) -> list[Plain]:
    rows: list[Plain] = []
    for n in filter(people.enough_for, _SPANNED):
        say(f"membership, {n} samples a class")
        rows += [
            _row(n, d, membership.by_device(people, n, options.devices, d)) for d in (OPEN, _OFF)
        ]
    for times in _GROUPS:
        say(f"membership in groups of {times} d")
        group = membership.by_group(people, _GROUPED, times * people.width, options.groups)
        if group is not None:
            rows.append({**_row(_GROUPED, _MASKED, group), "times": times})
    return rows


def _row(samples: int, defences: Defences, outcome: Any) -> Plain:
    """None as an outcome: nothing was said."""
    figures = None if outcome is None else asdict(outcome)
    return {"samples": samples, "defences": asdict(defences), "outcome": figures}


def _of(name: str, say: Say) -> Say:
    return lambda words: say(f"{name}: {words}")


def _plain(document: Plain) -> Plain:
    """As it is read again."""
    plain: Plain = json.loads(json.dumps(document))
    return plain


def named(methods: str) -> list[str]:
    """Methods of a list with commas; all of the registry where it is empty."""
    names = [name for name in methods.split(",") if name]
    for name in names:
        registry.load(name)  # a wrong one is said now and not after an hour
    return names or registry.names()


def check(kinds: Sequence[str], options: AttackOptions, seeds: int) -> None:
    """Refuse what cannot be run."""
    numbers = [seeds, *asdict(options).values()]
    if min(numbers) < 1:
        raise UsageError("numbers from 1 up are due")
    if not kinds:
        raise UsageError("no attack was named", f"there are: {', '.join(KINDS)}")


def merged(one: Any, two: Any) -> Any:
    """Both documents; where they speak of the same, the second's word."""
    if not isinstance(one, Mapping) or not isinstance(two, Mapping) or "rows" in two:
        return two
    return {**one, **{key: merged(one.get(key), value) for key, value in two.items()}}


def keep(document: Mapping[str, Any], path: Path) -> None:
    """Put these figures among those that are there."""
    there: Plain = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = json.dumps(merged(there, document), indent=1, sort_keys=True)
    write_whole(path, (whole + "\n").encode())
