"""`edge-agent status`: what the daemon left on disk, and whether it is still there."""

import json


def test_status_of_a_device_that_never_ran_is_one_line(call):
    found = call("status", "--data-dir", "nowhere", "--json")
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "no device has run here yet" in found.stderr


def test_status_reads_what_a_daemon_left(call, tmp_path):
    from edge_agent.daemon.status import Status, write
    from edge_agent.store import Store

    Store(tmp_path / "kept").close()
    write(
        tmp_path / "kept",
        Status("camera", "orchard", "mqtt://x:1883", 2**22 + 1, trained=3, run="r"),
        "now",
    )
    found = call("status", "--data-dir", "kept", "--json")
    told = json.loads(found.stdout)
    assert (told["running"], told["agent"], told["outbox"], told["trained"]) == (
        False,
        "camera",
        {},
        0,
    )
    assert "not running" in call("status", "--data-dir", "kept").stdout


def test_status_says_what_the_ledger_has(call, tmp_path):
    from edge_agent.daemon.deliver import LedgerStanding
    from edge_agent.daemon.status import Status, write
    from edge_agent.store import Store

    Store(tmp_path / "kept").close()
    standing = LedgerStanding(("class/mug", "own"), ("counts",))
    write(tmp_path / "kept", Status("camera", "orchard", "mqtt://x", 1, ledger=standing), "now")
    lines = call("status", "--data-dir", "kept").stdout.splitlines()
    assert "ledger    has class/mug, what this device's samples are like" in lines
    assert "to bring  its counts of the total" in lines
    assert not any(line.startswith(("trained", "outbox", "accuracy")) for line in lines)
