"""What Home Assistant makes of what it is told: `make homeassistant`.

`write` records all that a device and a coordinator make known, with words that they say and what is
to be seen of them, in `tests/data/homeassistant/payloads.json`; the suite holds the code to that
file. `check` runs in an environment of its own, with Home Assistant in it: every payload goes
through Home Assistant's own discovery schema, nothing may be dropped, every template is rendered by
its own templates.
"""

from __future__ import annotations

import base64
import json
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


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["check"] else write())
