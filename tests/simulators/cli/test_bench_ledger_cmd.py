"""What came of a live ledger, in lines that a person reads."""

from simulators.cli.bench_ledger_cmd import table

DEVICE = {"photos": 90, "cpu_per_100": 1.5, "rss_mb": 140.0, "rss_daemon_mb": 50.0, "torch": False}
ANSWER = {
    "devices": {"yard": DEVICE, "door": {**DEVICE, "torch": True}},
    "laboratory": {"accuracy": 0.5, "state": "ab" * 32},
    "live": {"accuracy": {"yard": 0.5, "door": 0.25}, "state": "ab" * 32},
    "seconds": {"first": 9.0, "everybody": 12.0, "counted": 30.0},
    "new_class": {
        "class": "owl",
        "seconds": 0.2,
        "new": 1,
        "others_before": 0.5,
        "others_after": 0.4,
    },
    "forgotten": {"after": "cd" * 32, "proof": True},
    "suspects": ["door: its 'owl' looks like everybody else's 'cat'"],
    "idle": {"bytes_a_device_and_day": 12345.6},
    "starts": [{"state": "ab" * 32}],
}


def test_every_device_has_a_line_and_hashes_are_counted():
    text = table(ANSWER)
    assert "door              90       1.50     140         50    yes   25.00 %" in text
    assert "owl by five photos: on another device after 0.20 s" in text
    assert "idle, bytes_a_device_and_day: 12,346" in text
    assert "2 starts, one hash" in text
    other = {**ANSWER, "starts": [{"state": "ef" * 32}]}
    assert "2 starts, 2 hashes" in table(other)
