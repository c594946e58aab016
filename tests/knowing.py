"""What a fleet knows for tests: a bank made of real sums of features, with or without counts."""

from protofleet.exchange import learned
from protofleet.exchange.published import About, Bank
from protofleet.statistics import counts
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import Samples
from protofleet.values.sums import merge_all

GRID = Grid()


def knowing(lineage, classes, devices, *, counted=True):
    """The bank of devices' (features, labels); without counts nothing is called unknown."""
    own = [contribution(x, y, GRID) for x, y in devices]
    total = merge_all([fold(each, GRID) for each in own])
    state, _ = learned.state(total)
    if counted:
        of, whole = learned.moments(state.shared), None
        for (x, y), each in zip(devices, own, strict=True):
            one = counts.count(of, Samples.of(x, y, each))
            whole = one if whole is None else whole.plus(one)
        state, _ = learned.state(total, whole)
    sure = learned.calibration(state.shared)
    return Bank(About(lineage, tuple(classes), calibration=sure), state.shared[learned.HEAD])
