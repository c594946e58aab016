"""What Home Assistant makes of what it is told: `make homeassistant`.

`write` records all that a device and a coordinator make known, with words that they say and what is
to be seen of them, in `tests/data/homeassistant/payloads.json`; the suite holds the code to that
file. `check` runs in an environment of its own, with Home Assistant in it: every payload goes
through Home Assistant's own discovery schema, nothing may be dropped, every template is rendered by
its own templates. `live` starts Home Assistant beside a mosquitto, says all of it there, and looks
at what it made: entities and their states, a name that its user gave, a button, a device that lost
its power, and that nothing is left when all is taken back.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "tests" / "data" / "homeassistant" / "payloads.json"
AGENT, FLEET, PREFIX, ENCODING = "camera-07", "orchard", "homeassistant", "latin-1"
DEVICE_HOME = {
    "doing": "waiting",
    "bundle": "0123456789ab",
    "newest": "ba9876543210",
    "samples": 240,
    "classes": 8,
    "bytes_today": 1_200_000,
    "trouble": [],
}
FLEET_HOME = {
    "accuracy": 0.913,
    "online": 4,
    "gone": 1,
    "devices": 5,
    "classes": 8,
    "samples": 960,
    "alerts": ["camera-03 is silent for 2 hours."],
}
SIGHT = {"label": "mug", "probability": 0.934, "unknown": False, "source": "door", "at": 1.0}


def document() -> dict[str, Any]:
    """All of it, as it is recorded."""
    import protofleet
    from protofleet import wire
    from protofleet.homeassistant import discovery
    from protofleet.homeassistant.discovery import COORDINATOR, HomeDevice
    from protofleet.mqtt.topics import Topics

    topics = Topics(FLEET)
    device = HomeDevice(
        FLEET, AGENT, "edge device", topics.state(AGENT), "Hall", "http://camera-07.local:8322/"
    )
    fleet = HomeDevice(FLEET, COORDINATOR, "fleet", topics.coordinator_state)
    said = discovery.discovered(device, discovery.of_device(topics, AGENT), PREFIX)
    said += discovery.discovered(fleet, discovery.of_fleet(topics), PREFIX)

    def presence(kind: str, *, online: bool) -> bytes:
        agent = AGENT if kind == "birth" else None
        envelope = wire.Envelope(t=kind, fleet=FLEET, agent=agent, boot="b1", seq=1)
        return wire.encode(envelope, {"online": online, "classes": ["online"]})

    unknown = {**SIGHT, "label": "", "probability": None, "unknown": True}
    words: list[tuple[str, bytes, dict[str, str]]] = [
        (topics.state(AGENT), presence("birth", online=True), {"connection": "ON"}),
        (topics.state(AGENT), presence("birth", online=False), {"connection": "OFF"}),
        (topics.coordinator_state, presence("state", online=True), {"connection": "ON"}),
        (topics.coordinator_state, presence("state", online=False), {"connection": "OFF"}),
        (
            topics.sighting(AGENT),
            json.dumps(SIGHT).encode(),
            {"answer": "mug", "probability": "93.4", "unknown": "OFF"},
        ),
        (
            topics.sighting(AGENT),
            json.dumps({**SIGHT, "label": "Ä" * 400}).encode(),
            {"answer": "Ä" * 255},
        ),
        (
            topics.sighting(AGENT),
            json.dumps(unknown).encode(),
            {"answer": "None", "probability": "None", "unknown": "ON"},
        ),
        (
            topics.home(AGENT),
            json.dumps(DEVICE_HOME).encode(),
            {
                "bundle": '{"installed_version":"0123456789ab","latest_version":"ba9876543210"}',
                "samples": "240",
                "bytes_today": "1200000",
                "trouble": "OFF",
            },
        ),
        (
            topics.home(AGENT),
            json.dumps({**DEVICE_HOME, "trouble": ["the disk is full"]}).encode(),
            {"trouble": "ON"},
        ),
        (
            topics.fleet_home,
            json.dumps(FLEET_HOME).encode(),
            {"accuracy": "91.3", "online": "4", "devices": "5", "alerts": "ON"},
        ),
        (
            topics.fleet_home,
            json.dumps({**FLEET_HOME, "accuracy": None, "alerts": []}).encode(),
            {"accuracy": "None", "alerts": "OFF"},
        ),
    ]
    payloads = {p.topic: json.loads(p.payload) for p in said}
    for payload in payloads.values():
        for place in (payload["device"], payload["origin"]):
            assert place["sw_version"] == protofleet.__version__
            place["sw_version"] = "0"
    return {
        "payloads": payloads,
        "words": [
            {"topic": topic, "payload": base64.b64encode(word).decode(), "shows": shows}
            for topic, word, shows in words
        ],
    }


def write() -> None:
    """Record it."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(document(), indent=1, ensure_ascii=True) + "\n")
    print(f"{FILE}: written")


def check() -> int:
    """By Home Assistant itself; how many things were wrong."""
    import asyncio
    import importlib

    from homeassistant.const import __version__
    from homeassistant.core import HomeAssistant

    recorded = json.loads(FILE.read_text())
    hass_of = _hass

    async def checked() -> list[str]:
        hass: HomeAssistant = hass_of()
        wrong = []
        for topic, payload in recorded["payloads"].items():
            component = topic.split("/")[1]
            module = importlib.import_module(f"homeassistant.components.mqtt.{component}")
            trouble = _accepted(topic, payload, module.DISCOVERY_SCHEMA)
            trouble = trouble or _shown(hass, payload, recorded["words"])
            print(f"{'refused ' if trouble else 'accepted'} {topic}")
            wrong += [f"{topic}: {trouble}"] if trouble else []
        await hass.async_stop(force=True)
        return wrong

    wrong = asyncio.run(checked())
    print("\n".join(wrong))
    count = len(recorded["payloads"])
    print(f"Home Assistant {__version__}: {count - len(wrong)} of {count} payloads accepted")
    return len(wrong)


def _hass() -> Any:
    import inspect
    import tempfile

    from homeassistant.core import HomeAssistant

    takes_folder = "config_dir" in inspect.signature(HomeAssistant.__init__).parameters
    return HomeAssistant(tempfile.mkdtemp()) if takes_folder else HomeAssistant()


def _accepted(topic: str, payload: dict[str, Any], schema: Any) -> str:
    """Why not; empty: the schema takes it, and keeps all of it."""
    from homeassistant.components.mqtt import discovery

    match = discovery.TOPIC_MATCHER.match(topic.removeprefix(f"{PREFIX}/"))
    if match is None or match.group("component") not in discovery.SUPPORTED_COMPONENTS:
        return "no topic of a discovery"
    try:
        taken = schema({**payload, "platform": "mqtt"})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "; ".join(f"{key} was dropped" for key in _dropped(payload, taken, ""))


def _dropped(before: Any, after: Any, place: str) -> list[str]:
    """Keys that did not come through, wherever they lie."""
    if isinstance(before, dict):
        lost = [f"{place}{key}" for key in before if key not in after]
        return lost + [
            name
            for key in before
            if key in after
            for name in _dropped(before[key], after[key], f"{place}{key}.")
        ]
    if isinstance(before, list):
        if len(before) != len(after):
            return [place]
        pairs = zip(before, after, strict=True)
        return [name for old, new in pairs for name in _dropped(old, new, place)]
    return []


def _shown(hass: Any, payload: dict[str, Any], words: list[dict[str, Any]]) -> str:
    """What its templates make of what is said, by Home Assistant's own templates."""
    from homeassistant.components.mqtt.models import MqttValueTemplate
    from homeassistant.helpers.template import Template

    name = payload["unique_id"].rpartition("_")[2]
    name = "bytes_today" if payload["unique_id"].endswith("bytes_today") else name
    wrong = []

    def rendered(text: str, word: dict[str, Any]) -> str:
        template = MqttValueTemplate(Template(text, hass), hass=hass)
        received = base64.b64decode(word["payload"]).decode(ENCODING)
        return str(template.async_render_with_possible_json_value(received))

    for word in words:
        if word["topic"] == payload.get("state_topic") and name in word["shows"]:
            shown = rendered(payload["value_template"], word)
            due = word["shows"][name]
            wrong += [f"{shown!r} is shown, {due!r} is due"] if _plain(shown) != _plain(due) else []
        for one in payload.get("availability", []):
            if one["topic"] == word["topic"]:
                due = {"ON": "online", "OFF": "offline"}[word["shows"]["connection"]]
                shown = rendered(one["value_template"], word)
                wrong += [f"it is {shown!r}, and {due!r} is due"] if shown != due else []
        if word["topic"] == payload.get("json_attributes_topic"):
            text = payload.get("json_attributes_template")
            attributes = rendered(text, word) if text else base64.b64decode(word["payload"])
            if not isinstance(json.loads(attributes), dict):
                wrong.append("its attributes are no object")
    return "; ".join(wrong)


def _plain(text: str) -> str:
    """JSON however it is spaced."""
    return json.dumps(json.loads(text)) if text.startswith("{") else text


def live() -> int:
    """By a Home Assistant that runs; how many things were wrong."""
    import asyncio
    import logging
    import tempfile
    import time

    logging.disable(logging.CRITICAL)  # components that nobody asked for miss their packages
    folder, port = Path(tempfile.mkdtemp()), _free_port()
    (folder / "configuration.yaml").write_text("")
    settings = folder / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        print("mosquitto is not installed: Home Assistant was not started")
        return 1
    quiet = subprocess.DEVNULL
    with subprocess.Popen([program, "-c", str(settings)], stderr=quiet, stdout=quiet) as broker:
        try:
            time.sleep(1.0)
            wrong = asyncio.run(_lived(folder, port))
        finally:
            broker.terminate()
    print("\n".join(wrong) or "Home Assistant lives with it: nothing wrong")
    return len(wrong)


async def _lived(folder: Path, port: int) -> list[str]:
    import asyncio

    from homeassistant.helpers import entity_registry
    from paho.mqtt.client import Client

    recorded = json.loads(FILE.read_text())
    payloads, words = recorded["payloads"], recorded["words"]
    pressed: list[str] = []
    client = Client("fleet")
    client.on_message = lambda _client, _data, message: pressed.append(message.topic)
    client.connect("127.0.0.1", port)
    client.subscribe(f"pf/1/{FLEET}/d/+/press/+")
    client.loop_start()

    def say(topic: str, payload: bytes) -> None:
        client.publish(topic, payload, 1, True).wait_for_publish(10)

    hass = await _started(folder, port)
    entities = entity_registry.async_get(hass)

    def state(unique_id: str) -> str:
        for entry in entities.entities.values():
            if entry.unique_id == f"protofleet_{FLEET}_{unique_id}":
                found = hass.states.get(entry.entity_id)
                return found.state if found else "none"
        return "none"

    wrong = []

    async def until(due: str, holds: Any) -> None:
        for _ in range(240):
            if holds():
                print(f"lived    {due}")
                return
            await asyncio.sleep(0.25)
        wrong.append(f"not so: {due}")

    for topic, payload in payloads.items():
        say(topic, json.dumps(payload).encode())
    for number in (0, 2, 4, 7, 9):  # who is there, an answer, both homes
        say(words[number]["topic"], base64.b64decode(words[number]["payload"]))
    await until(f"{len(payloads)} entities", lambda: len(entities.entities) == len(payloads))
    for name, due in {
        f"{AGENT}_answer": "mug",
        f"{AGENT}_probability": "93.4",
        f"{AGENT}_bundle": "on",
        f"{AGENT}_connection": "on",
        "coordinator_accuracy": "91.3",
        "coordinator_alerts": "on",
    }.items():
        await until(f"{name} is {due}", lambda name=name, due=due: state(name) == due)
    answer = next(e for e in entities.entities.values() if e.unique_id.endswith(f"{AGENT}_answer"))
    entities.async_update_entity(answer.entity_id, name="What the door sees", area_id="hall")
    for topic, payload in payloads.items():
        say(
            topic,
            json.dumps({**payload, "device": {**payload["device"], "sw_version": "1"}}).encode(),
        )
    await asyncio.sleep(1.0)
    entry = entities.async_get(answer.entity_id)
    kept = ("What the door sees", "hall")
    await until(
        "a name and an area of its user's stay", lambda: (entry.name, entry.area_id) == kept
    )
    button = f"button.{AGENT.replace('-', '_')}_contribute"
    await hass.services.async_call("button", "press", {"entity_id": button}, blocking=True)
    await until(
        "a button is pressed", lambda: pressed == [f"pf/1/{FLEET}/d/{AGENT}/press/contribute"]
    )
    say(words[1]["topic"], base64.b64decode(words[1]["payload"]))  # its last will
    await until(
        "a device without power is unavailable", lambda: state(f"{AGENT}_answer") == "unavailable"
    )
    await until("and not connected", lambda: state(f"{AGENT}_connection") == "off")
    for topic in payloads:
        say(topic, b"")
    await until("nothing is left when it is taken back", lambda: not entities.entities)
    client.loop_stop()
    await hass.async_stop(force=True)
    return wrong


async def _started(folder: Path, port: int) -> Any:
    """Home Assistant with nothing in it but MQTT."""
    from homeassistant import auth, bootstrap, config_entries, loader
    from homeassistant.core import HomeAssistant
    from homeassistant.setup import async_setup_component

    hass = HomeAssistant(str(folder))
    hass.config.skip_pip = True
    loader.async_setup(hass)
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth.auth_manager_from_config(hass, [{"type": "homeassistant"}], [])
    web = {"server_host": "127.0.0.1", "server_port": _free_port()}
    await async_setup_component(hass, "http", {"http": web})
    await hass.async_start()
    broker = {"broker": "127.0.0.1", "port": port, "discovery": True, "discovery_prefix": PREFIX}
    entry = config_entries.ConfigEntry(
        version=1, minor_version=1, domain="mqtt", title="mqtt", data=broker, source="user"
    )
    await hass.config_entries.async_add(entry)
    return hass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


DO = {"check": check, "live": live}

if __name__ == "__main__":
    sys.exit(DO[sys.argv[1]]() if sys.argv[1:] else write())
