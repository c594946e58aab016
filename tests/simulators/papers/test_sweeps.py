"""The smaller experiments: one setting at a time, and figures as their tables have them."""

from dataclasses import replace

from protofleet.contract import Numerics
from simulators.papers import sweeps
from simulators.papers.protocols import MPS_CIFAR
from simulators.run.config import Run


def differing(one, other):
    """The names of what differs between two configurations."""
    names = set()
    for section in ("run", "partition", "training", "numerics"):
        a, b = getattr(one, section), getattr(other, section)
        names |= {name for name in vars(a) if getattr(a, name) != getattr(b, name)}
    return names | {pair.partition("=")[0] for pair in set(one.settings) ^ set(other.settings)}


def test_one_setting_moves_at_a_time():
    ours = {cell.name: cell for cell in sweeps.SPREADS + sweeps.CLIENTS + sweeps.TEMPERATURES}
    base = ours["fedmps-std1"]
    assert differing(base.config, MPS_CIFAR) == {"rounds"}
    moved = {
        "fedmps-std2": {"spread"},
        "fedmps-40": {"agents"},
        "fedmps-tau1-0.1": {"tau1"},
        "fedmps-tau2-10": {"tau2"},
    }
    for name, names in moved.items():
        assert differing(ours[name].config, base.config) == names
    for cell in sweeps.GFPL_SWEEPS[1:]:
        assert len(differing(cell.config, sweeps._GFPL)) == 1
    for k in sweeps.MPFEDCL_SWEEPS[3:]:
        assert differing(k.config, sweeps.POOLED_AS_PRINTED) == {"clusters"}
    for cell in sweeps.FEDIC_SWEEPS[:5]:
        assert differing(cell.config, sweeps._CIFAR_SHORT) == {"clusters"}


def test_gfpl_s_parts_are_those_of_its_table_2():
    parts = {cell.name: cell for cell in sweeps.COMPONENTS}
    assert len(parts) == 8
    assert parts["gfpl-cifar10-all-20"].config.partition.shot_spread == 20
    assert parts["gfpl-cifar10-neither-1"].config.settings == ("lam=0", "pseudo=0")
    # A classifier trained without the regression is asked by its head: there is no projection.
    assert {c.evaluator for n, c in parts.items() if "lam=0" in c.config.settings} == {"head"}
    figures = [cell.paper for name, cell in parts.items() if name.endswith("-1")]
    assert figures == sorted(figures, reverse=True)


def test_clients_of_mp_fedcl_are_compared_at_dir_0_1():
    for cell in sweeps.MPFEDCL_CLIENTS:
        assert cell.config.partition.alpha == 0.1
    leads = [aim.amount for cell in sweeps.MPFEDCL_CLIENTS for aim in cell.aims]
    assert leads == [0.072, 0.0] * 4


def test_speed_cells_differ_from_the_plain_one_in_numerics_alone():
    plain = {cell.name: cell for cell in sweeps.SPEED if not cell.aims}
    assert set(plain) == {"speed-cnn4", "speed-lenet"}
    for cell in plain.values():
        assert cell.config.numerics == Numerics()
    for cell in sweeps.SPEED:
        for aim in cell.aims:
            assert (aim.kind, aim.amount) == ("within", 0.003)
            other = plain[aim.other].config
            assert replace(cell.config, numerics=other.numerics) == other


def test_in_table_6_the_runs_under_three_classes_are_those_of_table_3():
    assert [cell.runs for cell in sweeps.THREE] == [
        "fedmps-cifar10",
        "fedproto-cifar10-long",
        "fedavg-cifar10",
        "fedmps-fashion",
        "fedproto-fashion",
        "fedavg-fashion",
    ]
    assert all(isinstance(cell.config.run, Run) for cell in sweeps.THREE)
