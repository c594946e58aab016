"""What lies in deploy/: a real Prometheus takes its settings and rules, scrapes a live coordinator
and a device, and answers every query of the dashboard and of the rules with numbers.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest
import yaml

from coordinator.members.office import Office
from coordinator.service import status
from coordinator.service.control import Control
from coordinator.service.vitals import vitals
from edge_agent.daemon.status import Status, write
from edge_agent.store import Store
from edge_agent.updates.sight import Sight, Sights
from protofleet.member import membership
from protofleet.member.membership import FleetMember
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.util.files import own_folder
from tests.contributing import arrived, counted, message
from tests.coordinator.made import ledger, totals

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus" / "protofleet.rules.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "protofleet.json").read_text())
PATIENCE = 120.0
VARIABLES = {"$instance": ".*", "$device": ".*", "$__rate_interval": "20s"}
# Nobody writes these names but ours; whatever a rule or a panel asks for must be measured.
NAMES = re.compile(r"\bprotofleet_[a-z0-9_]+")
FLEET = """
[broker]
url = "{url}"
[serve]
fleet = "f"
method = "fedproto"
every = 0.5
[contract]
classes = ["a", "b"]
embedding = 8
[contract.input]
kind = "vector"
shape = [4]
"""


def promtool(*words):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("Prometheus is not installed")
    run = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def queries():
    """Every query of the dashboard, as Grafana would send it."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text


def alerts():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_settings_and_rules_are_right_to_promtool():
    promtool("check", "config", str(ROOT / "deploy" / "prometheus" / "prometheus.yml"))
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(RULES))


def test_each_alert_is_one_sentence_and_one_suggestion():
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    for rule in alerts():
        words = rule["annotations"]
        assert set(words) == {"summary", "description"}
        assert all(text.endswith(".") and "\n" not in text for text in words.values())
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_rules_speak_when_they_should_and_else_are_silent(tmp_path):
    """By promtool's own unit tests: a device that went, an accuracy that fell, a quiet fleet."""
    of = '{instance="i", job="protofleet-coordinator"'
    series = [
        (f'protofleet_device_online{of}, device="b"}}', "1+0x30 0+0x150"),
        (f'protofleet_device_silence_seconds{of}, device="b"}}', "0+0x30 0+60x150"),
        (f'protofleet_device_online{of}, device="a"}}', "1+0x180"),
        (f'protofleet_device_silence_seconds{of}, device="a"}}', "9000+0x180"),
        (f"protofleet_held_out_accuracy_ratio{of}}}", "0.9+0x60 0.8+0x120"),
        (f"protofleet_disk_free_bytes{of}}}", "50000000000+0x180"),
    ]

    def rows(at, **firing):
        return [
            {
                "eval_time": at,
                "alertname": f"ProtoFleet{name}",
                "exp_alerts": [
                    {
                        "exp_labels": {
                            "severity": "warning",
                            "instance": "i",
                            "job": "protofleet-coordinator",
                            **labels,
                        },
                        "exp_annotations": {"summary": words[0], "description": words[1]},
                    }
                ]
                if labels is not None
                else [],
            }
            for name, (labels, words) in firing.items()
        ]

    silent = (
        "b is not there, and was last heard 1h 10m 0s ago.",
        "Look at its power and its network; if it does not come back, `coordinator forget b`.",
    )
    fell = (
        "Of the samples that devices held out, 80% are right now, five points less than within the"
        " last day.",
        "Look at suspect classes and at who contributed last (`coordinator agents`);"
        " `coordinator classes back` goes back.",
    )
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "alert_rule_test": [
                    *rows("50m", DeviceSilent=(None, ()), AccuracyFell=(None, ())),
                    *rows("101m", DeviceSilent=({"device": "b"}, silent), AccuracyFell=({}, fell)),
                    *rows("101m", DiskFills=(None, ())),
                ],
            }
        ],
    }
    file = tmp_path / "rules.test.yml"
    file.write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(file))


@contextmanager
def process(*words, **more):
    running = subprocess.Popen([*map(str, words)], **more)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(PATIENCE)


def eventually(ask, what):
    """What it answers, once that is something."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.2)
    return answer


def page(stack, log, *words):
    """A page's process: its port, once it listens."""
    file = log.open("w")
    stack.enter_context(process(sys.executable, *words, stdout=file, stderr=file))
    found = eventually(lambda: re.search(r"http://[^/]*:(\d+)/", log.read_text()), str(log))
    return int(found[1])


def operators_page(stack, log, folder):
    """As an operator starts it beside a coordinator."""
    words = ("coordinator", "web", "--data-dir", folder, "--http", "127.0.0.1:0")
    return page(stack, log, "-m", *words)


def owners_page(stack, log, folder):
    """As its owner starts it beside a device."""
    words = ("edge_agent", "serve", "--data-dir", folder, "--http", "127.0.0.1:0")
    return page(stack, log, "-m", *words)


def answering(folder):
    """A ledger with counts behind a real socket, as a service answers."""
    made = ledger(folder)
    contributions = {agent: message(agent, ("apple", "plum")) for agent in ("a", "b")}
    made.take([arrived(agent, m) for agent, m in contributions.items()], 1.0)
    published = made.take([], 2.0) + made.take([], 60.0)
    (total,) = totals(published)
    counts = [arrived(agent, counted(agent, ("apple", "plum"), total)) for agent in contributions]
    made.take(counts, 61.0)
    made.take([], 100.0)
    made.take([arrived("a", b"no message")], 100.0)
    made.allowance.count("topic")
    office = Office(folder, "orchard", time.time)
    office.write_broker_files(("mqtts://localhost:8883",))
    office.close()

    def look(request):
        if request.command == "agents":
            return status.agents(made, 100.0)
        whole = status.status(made, made.messages, 100.0, 1.0, True, made.allowance.dropped)
        return {**whole, "vitals": vitals(made, {"outgoing": 0, "requests": 0})}

    control = Control(folder, SimpleQueue(), lambda: None, look)

    def goes_on():
        made.take([arrived("b", message("b", ("apple", "plum"), seed=7))], 200.0)
        made.take([], 300.0)

    return control, goes_on


def asked(port, query):
    """What Prometheus answers."""
    text = urllib.parse.urlencode({"query": query})
    url = f"http://127.0.0.1:{port}/api/v1/query?{text}"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        document = json.load(answer)
    assert document["status"] == "success", document
    return document["data"]["result"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus of ours that scraped all three of them several times: its port."""
    program = shutil.which("prometheus")
    if program is None or mosquitto.find() is None:
        pytest.skip("Prometheus or mosquitto is not installed")
    folder = tmp_path_factory.mktemp("scraped")
    with ExitStack() as stack:
        news = []  # what goes on once it was scraped
        broker = stack.enter_context(running_broker(folder / "broker", prefer="mosquitto"))
        ports = {
            "protofleet-coordinator": [
                _coordinator(stack, folder, str(broker.address)),
                _ledger(stack, folder / "ledger", news),
            ],
            "protofleet-device": [
                _device(stack, folder, str(broker.address), news),
                _member(stack, folder / "member"),
            ],
        }
        settings = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "5s"}
        settings["rule_files"] = [str(RULES)]
        for job in settings["scrape_configs"]:
            targets = [f"127.0.0.1:{port}" for port in ports[job["job_name"]]]
            job["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        yield _prometheus(stack, program, folder, news)


def _coordinator(stack, folder, url):
    (folder / "fleet.toml").write_text(FLEET.format(url=url))
    words = ("serve", "--config", folder / "fleet.toml")
    log = (folder / "coordinator.log").open("w")
    stack.enter_context(process(sys.executable, "-m", "coordinator", *words, stderr=log))
    eventually((folder / "coordinator-data" / "control.sock").exists, "its socket")
    return operators_page(stack, folder / "web.log", folder / "coordinator-data")


def _ledger(stack, folder, news):
    folder.mkdir()
    control, goes_on = answering(folder)
    stack.callback(control.close)
    news.append(goes_on)
    return operators_page(stack, folder / "web.log", folder)


def _device(stack, folder, url, news):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    rows = rng.normal(size=(40, 4)).astype(np.float32) + labels[:, None] * 3
    np.savez(folder / "samples.npz", x=rows, y=labels, classes=["a", "b"])
    config = folder / "agent.toml"
    text = f'[agent]\nid = "camera-07"\n[broker]\nurl = "{url}"\n[fleet]\nname = "f"\n'
    config.write_text(text + '[data]\nsource = "samples.npz"\n[limits]\nmin_free_mb = 0\n')
    words = ("edge_agent", "run", "--config", str(config))
    log = (folder / "agent.log").open("w")
    stack.enter_context(process(sys.executable, "-m", *words, stderr=log))
    sights = Sights(own_folder(folder / "agent-data") / "fleet.pfb")

    def looks():
        for n in range(4):
            sights.add(Sight("a", 0.9, unknown=n == 3, at=time.time()))
        sights.frames(9, dropped=2)
        sights.save()

    looks()
    news.append(looks)
    return owners_page(stack, folder / "device.log", folder / "agent-data")


def _member(stack, folder):
    """A device as its daemon left it: of a fleet with a bundle, which it joined by invitation."""
    Store(folder).close()
    bundles = {"bundle": "ab" * 32, "newest": "cd" * 32}
    write(folder, Status("camera-08", "f", "mqtts://x", os.getpid(), **bundles), "now")
    office = Office(folder / "office", "f", time.time)
    files = office.own_certificate()
    office.close()
    membership.write(FleetMember("f", "camera-08", "mqtts://x", folder / membership.FOLDER))
    shutil.copy(files[1], folder / membership.FOLDER / "device.pem")
    return owners_page(stack, folder / "web.log", folder)


def _prometheus(stack, program, folder, news):
    words = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
    ]
    log = folder / "prometheus.log"
    stack.enter_context(process(program, *words, stderr=log.open("w"), stdout=subprocess.DEVNULL))
    listens = re.compile(r'"address":"127\.0\.0\.1:([1-9]\d*)"')
    found = eventually(lambda: listens.search(log.read_text()), f"Prometheus: {log}")
    port = int(found[1])
    eventually(lambda: _ready(port), "Prometheus")
    # Rounds went on while it looked: rates need two scrapes with something in between.
    fused = "increase(protofleet_fusion_seconds_count[20s]) > 1"
    trained = "increase(protofleet_agent_training_seconds_count[20s]) > 1"
    measured = "protofleet_agent_accuracy_ratio"
    for query in (fused, trained, measured, "count(up == 1) == 4"):
        eventually(lambda query=query: asked(port, query), query)
    for goes_on in news:
        goes_on()
    seen, versions = "protofleet_agent_answers_total", "protofleet_ledger_version_seconds_count"
    for name in (seen, versions):
        eventually(lambda name=name: asked(port, f"sum(increase({name}[20s])) > 0"), name)
    return port


def _ready(port):
    with suppress(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE).close()
        return True
    return False


def test_every_query_of_the_dashboard_has_an_answer(prometheus):
    for title, query in queries():
        # Between two rounds nobody has measured the newest state yet: that passes.
        eventually(lambda query=query: _numbers(prometheus, query), f"{title}: {query}")


def _numbers(port, query):
    return [n for row in asked(port, query) if (n := row["value"][1]) != "NaN"]


def test_whatever_a_rule_asks_for_is_measured(prometheus):
    for rule in alerts():
        for name in set(NAMES.findall(rule["expr"])):
            assert asked(prometheus, f"count({name})"), (rule["alert"], name)
    with urllib.request.urlopen(f"http://127.0.0.1:{prometheus}/api/v1/rules") as answer:
        groups = json.load(answer)["data"]["groups"]
    evaluated = [rule for group in groups for rule in group["rules"]]
    assert len(evaluated) == len(alerts())
    assert not [rule["lastError"] for rule in evaluated if rule.get("lastError")]


def test_what_is_told_of_the_coordinator_is_what_its_own_prometheus_would_say(prometheus):
    (row,) = asked(prometheus, 'protofleet_run_info{method="fedproto"}')
    assert row["metric"]["fleet"] == "f"
    (row,) = asked(prometheus, 'protofleet_device_online{device="camera-07"}')
    assert row["value"][1] == "1"
    (row,) = asked(prometheus, 'protofleet_agent_info{agent="camera-07"}')
    assert row["metric"]["method"] == "fedproto"


def test_the_dashboard_is_one_that_grafana_takes():
    """As far as that can be told without it: what its importer and its panels need is there."""
    assert DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["uid"]
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters))
        used = set(re.findall(r"\$(?:\{)?(\w+)", json.dumps(panel["targets"])))
        assert used <= {*variables, "__rate_interval"}
