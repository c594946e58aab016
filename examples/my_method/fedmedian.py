"""FedMedian: FedProto with the coordinate-wise median of the devices' class means, read by cosine."""

from dataclasses import dataclass

import numpy as np

from protofleet.exchange.state import GlobalState
from protofleet.recipe import ByHead, NearestPrototype, Phase, Recipe
from protofleet.settings.fields import setting
from protofleet.toolbox import losses, summaries
from protofleet.toolbox.access import as_given, find, need
from protofleet.values.prototypes import Prototypes
from protofleet.values.sums import Bag


@dataclass(frozen=True)
class Hyper:
    lam: float = setting(1.0, "weight of the pull toward the global prototype", low=0)


def loss(net, batch, given, hyper):  # 1: what the device minimises
    _, z = net.features(batch.x)
    pull = losses.to_prototype(z, batch.y, given["prototypes"], given["have"])
    return losses.cross_entropy(net.head(z), batch.y) + hyper.lam * pull


def train(turn, me, got):
    known = find(got, "prototypes", Prototypes)
    return [Phase(loss, given=as_given(known, turn.contract.n_classes, turn.contract.embedding))]


def summarise(turn, me, got):  # 2: what it sends
    seen = me.features()
    return {"prototypes": summaries.class_means(seen.high, seen.labels, counts=False)}


def fold(turn, upload, weight):  # 3a: a median needs all uploads at once, so they are kept whole
    return {"prototypes": Bag.of(upload.agent, weight, upload.parts)}


def fuse(turn, total, before):  # 3b: the next state, of which 4 (what goes back) is the shared part
    known = find(before.shared, "prototypes", Prototypes)
    rows = {} if known is None else dict(zip(known.classes.tolist(), known.vectors, strict=True))
    sent = [need(parts, "prototypes", Prototypes) for _, _, parts in total["prototypes"].items] if total else []
    for c in {int(c) for means in sent for c in means.classes}:
        rows[c] = np.median(np.concatenate([means.only([c]).vectors for means in sent]), axis=0)
    if not rows:
        return before
    classes = sorted(rows)
    return GlobalState(shared={"prototypes": Prototypes(classes, np.stack([rows[c] for c in classes]))})


def scorers(turn, me, got):  # how a device classifies
    known = find(got, "prototypes", Prototypes)
    return {"head": ByHead()} | ({} if known is None else {"prototype": NearestPrototype(known, "cosine")})


recipe = Recipe("fedmedian", "FedProto with medians, read by cosine", Hyper, train, summarise, fold, fuse, scorers)
