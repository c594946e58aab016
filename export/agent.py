"""A device's own model, from what its daemon keeps on disk: what it trained, or its fleet's
extractor with the newest classes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edge_agent.config import Config
from edge_agent.data.source import fit, read
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from edge_agent.networks import backbones
from edge_agent.store import Store
from edge_agent.updates import cache
from export import verify
from export.contents import Exported, npz
from export.source import Source, TrainedAgent, chosen_rows, of_agent
from export.trial import Trial
from protofleet import registry, wire
from protofleet.contract import Contract
from protofleet.errors import CheckpointError
from protofleet.exchange.archive import PROTOTYPES, REPORT, SELFTEST
from protofleet.exchange.snapshot import unpack
from protofleet.exchange.state import GlobalState
from protofleet.settings.fields import from_plain


def from_store(config: Config, data_dir: Path | None, run: str | None = None) -> Source:
    """The device as it classifies with the newest state of the run it trained in last."""
    store = Store(config.data_dir, create=False)
    try:
        name = run or store.newest_run()
        checkpoint = None if name is None else store.checkpoint(name)
        # What the fleet's announcement said, noted by the training process that followed it.
        spec: dict[str, Any] = json.loads(store.noted(f"plan/{name}") or "{}")
        message = None if name is None else store.newest("global", name)
        if name is None or checkpoint is None or message is None or not spec:
            raise CheckpointError(
                f"{config.data_dir}: no round was trained yet",
                "a bundle can be made after the first",
            )
        shared = wire.decode(message)
        round, base = shared.envelope.round or 0, shared.envelope.base or ""
        own = store.held("own", name, round, base)
    finally:
        store.close()
    contract, recipe = from_plain(Contract, spec["contract"]), registry.load(spec["method"])
    hyper = from_plain(recipe.hyper, spec["hyper"])
    fitted = fit(read(config.data, data_dir, contract.input), contract)
    samples = chosen_rows(
        contract,
        Trial(fitted.train.x, fitted.train.y),
        Trial(fitted.test.x, fitted.test.y),
        "test samples of this device",
    )
    state = GlobalState(shared.body, {} if own is None else {config.id: wire.decode(own).body})
    backbone = backbones.of_device(config.data.backbone, recipe.traits.backbone, contract.input)
    agent = TrainedAgent(config.id, backbone, unpack(checkpoint.body), state, round)
    return of_agent(contract, recipe, hyper, agent, samples)


def of_ledger(config: Config) -> Exported | None:
    """The extractor that all devices share, with the classes that the fleet published last; None
    where this device has none.
    """
    path = config.data_dir / "fleet.pfb"
    state = cache.read(cache.state_file(path))
    if state is None or not path.exists() or not len(state.bank.points.classes):
        return None
    bundle, classifier = open_bundle(path), Classifier(path)
    classifier.use(state.bank, state.digest)
    vectors = bundle.arrays(SELFTEST)["image"]
    inputs = classifier.loaded.ready.inputs
    scores, features = verify.scores(bundle.model, vectors, inputs)
    files = {
        **bundle.files,
        PROTOTYPES: cache.state_file(path).read_bytes(),
        SELFTEST: npz({"image": vectors, "score": scores, "feature": features}),
    }
    envelope = state.envelope
    manifest = replace(
        bundle.manifest,
        classes=tuple(classifier.loaded.labels),
        lineages=(state.bank.about.lineage,),
        method=envelope.method or bundle.manifest.method,
        fleet=envelope.fleet,
        run=envelope.run or bundle.manifest.run,
        round=envelope.round or 0,
        state=state.digest,
        files={name: sha256(data).hexdigest() for name, data in files.items()},
    )
    return Exported(manifest, files, json.loads(bundle.files.get(REPORT, b"{}")))
