"""The tables of the device bench: ratios to torch, and an agreement that is not hidden."""

from simulators.speed.device_process import OURS, tables


def process(name, rss, cpu):
    return {"name": name, "rss_mb": rss, "cpu_seconds": cpu}


def test_processes_are_relative_to_the_traced_network():
    rows = [process("ours", 50.0, 0.5), process("torch, a traced network", 200.0, 2.0)]
    lines = tables({"process": rows})
    assert lines[2].split() == ["ours", "50.0", "0.250", "0.500", "0.250"]
    assert lines[3].split()[-4:] == ["200.0", "1.000", "2.000", "1.000"]


def test_what_was_not_measured_has_no_table():
    assert tables({}) == []
    ratio = {"what": "swap", "ours": 1.0, "beside": 2.0, "ratio": 0.5, "target": "≤ 1"}
    (head, row) = tables({"cost": [ratio]})
    assert head.startswith("One thread")
    assert row.split() == ["swap", "1.0000", "2.000", "0.5000", "≤", "1"]


def test_a_network_that_disagrees_is_shouted():
    row = {"net": "lenet", "before": 1e-6, "after": 2e-6, "samples": 9}
    for same, words in ((True, "all of 9"), (False, "NOT ALL of 9")):
        assert tables({"agree": [row | {"same_class": same}]})[-1].endswith(words)


def test_our_process_checks_itself_that_it_has_no_torch():
    assert 'assert "torch" not in sys.modules' in OURS
