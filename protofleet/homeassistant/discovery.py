"""Entities as Home Assistant discovers them: retained JSON, a topic an entity, of plain values.

Pure functions; who publishes them is `edge_agent.daemon.home` and `coordinator.service.home`.
"""

# Theory of operation
#
# Home Assistant listens at `PREFIX/COMPONENT/NODE/OBJECT/config`. What stands there says of one
# entity where its state is read, how (a template), and where a word goes when somebody presses it.
# An empty retained payload takes the entity away, and with its last entity the device.
#
#   in the topic    what              why it never changes
#   NODE            the agent's id    the broker's rules let a device write under its own alone
#   OBJECT          the entity        one of a few words of ours
#
# - `unique_id` is made of fleet, agent and entity, and of nothing that a person may change. Home
#   Assistant keeps what its user called an entity, and the area, by that; what is suggested here
#   counts once, when it is first discovered. `name` is the entity's own: Home Assistant puts the
#   device's before it.
# - A connection has one last will, and the device's is its death (`d/{id}/state`), signed CBOR. So
#   availability is read from that very message, without another: its text holds `online` and the
#   byte of true, or of false. Decoded as latin-1 every byte is a letter, which is why `encoding` is
#   latin-1 throughout; our JSON is ASCII, and reads the same.
# - Connectivity itself has no availability: it would be unavailable just when it has something to
#   say.
# - Nothing is retained that is pressed; a press that is sent again later would be one nobody made.

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import protofleet
from protofleet.mqtt.link.events import Publication
from protofleet.mqtt.topics import Topics, check_name

MAKER = "ProtoFleet"
COORDINATOR = "coordinator"  # the node of the fleet's own entities: the user that publishes them
NODE = re.compile(r"[A-Za-z0-9_-]+")  # what Home Assistant takes in a topic
PRESS = "PRESS"
ENCODING = "latin-1"
ONLINE, OFFLINE = "online", "offline"
# Of CBOR: a text of six letters, which are `online`, and true behind it.
IS_ONLINE = r"'fonline\xf5' in value"


@dataclass(frozen=True)
class Entity:
    """One of a device's; `fields` are Home Assistant's own words for its component."""

    component: str
    name: str  # in topics and unique ids
    label: str  # what it is called until somebody calls it otherwise
    fields: Mapping[str, Any] = field(default_factory=dict)
    diagnostic: bool = False
    always: bool = False  # also where the device is not there


@dataclass(frozen=True)
class HomeDevice:
    """Whose entities they are."""

    fleet: str
    agent: str
    model: str
    presence: str  # the topic of its births and deaths
    area: str = ""
    page: str = ""  # where its own page is

    @property
    def key(self) -> str:
        """What it is to Home Assistant, for good."""
        return f"protofleet_{self.fleet}_{self.agent}"


def fits(agent: str) -> bool:
    """Whether Home Assistant takes such a name in its topics."""
    return NODE.fullmatch(agent) is not None


def discovered(device: HomeDevice, entities: Iterable[Entity], prefix: str) -> list[Publication]:
    """What makes them known."""
    return [
        Publication(
            topic(prefix, device.agent, entity),
            json.dumps(payload(device, entity), separators=(",", ":")).encode(),
            qos=1,
            retain=True,
        )
        for entity in entities
    ]


def removed(agent: str, entities: Iterable[Entity], prefix: str) -> list[Publication]:
    """What makes them unknown again."""
    return [
        Publication(topic(prefix, agent, entity), b"", qos=1, retain=True) for entity in entities
    ]


def forgotten(topics: Topics, agent: str, prefix: str) -> list[Publication]:
    """All that is retained of a device for homes, taken back: it left, or was told to go."""
    shown = (topics.sighting(agent), topics.picture(agent), topics.home(agent))
    entities = removed(agent, of_device(topics, agent), prefix) if fits(agent) else []
    return [*entities, *(Publication(place, b"", qos=1, retain=True) for place in shown)]


def topic(prefix: str, agent: str, entity: Entity) -> str:
    """Where an entity is made known."""
    return f"{prefix}/{entity.component}/{check_name('device', agent)}/{entity.name}/config"


def payload(device: HomeDevice, entity: Entity) -> dict[str, Any]:
    """An entity as Home Assistant reads it."""
    about = {
        "identifiers": [device.key],
        "name": device.agent,
        "manufacturer": MAKER,
        "model": device.model,
        "sw_version": protofleet.__version__,
        **({"suggested_area": device.area} if device.area else {}),
        **({"configuration_url": device.page} if device.page else {}),
        **(
            {"via_device": f"protofleet_{device.fleet}_{COORDINATOR}"}
            if device.agent != COORDINATOR
            else {}
        ),
    }
    available = {
        "availability": [
            {
                "topic": device.presence,
                "value_template": f"{{{{ '{ONLINE}' if {IS_ONLINE} else '{OFFLINE}' }}}}",
                "payload_available": ONLINE,
                "payload_not_available": OFFLINE,
            }
        ]
    }
    return {
        "name": entity.label,
        "unique_id": f"{device.key}_{entity.name}",
        "object_id": f"{device.agent}_{entity.name}",
        "encoding": ENCODING,
        **entity.fields,
        **({"entity_category": "diagnostic"} if entity.diagnostic else {}),
        **({} if entity.always else available),
        "device": about,
        "origin": {"name": MAKER, "sw_version": protofleet.__version__},
    }


def connectivity(presence: str) -> Entity:
    """Whether whoever's births and deaths these are is there."""
    fields = {
        "state_topic": presence,
        "value_template": f"{{{{ 'ON' if {IS_ONLINE} else 'OFF' }}}}",
        "device_class": "connectivity",
    }
    return Entity("binary_sensor", "connection", "Connection", fields, diagnostic=True, always=True)


def of_device(topics: Topics, agent: str) -> tuple[Entity, ...]:
    """All that a device may have; `picture` only where its owner said so."""
    sight, home = topics.sighting(agent), topics.home(agent)
    return (
        Entity(
            "sensor",
            "answer",
            "Answer",
            {
                "state_topic": sight,
                # A state has 255 letters at most; None is Home Assistant's word for not known.
                "value_template": "{{ value_json.label[:255] if value_json.label else None }}",
                "json_attributes_topic": sight,
                "icon": "mdi:eye",
            },
        ),
        Entity(
            "sensor",
            "probability",
            "Probability",
            {
                "state_topic": sight,
                "value_template": "{{ (value_json.probability * 100) | round(1)"
                " if value_json.probability is number else None }}",
                "unit_of_measurement": "%",
                "state_class": "measurement",
                "suggested_display_precision": 0,
            },
        ),
        Entity(
            "binary_sensor",
            "unknown",
            "Unknown thing",
            {
                "state_topic": sight,
                "value_template": "{{ 'ON' if value_json.unknown else 'OFF' }}",
                "icon": "mdi:help-circle",
            },
        ),
        Entity(
            "image",
            "picture",
            "Picture",
            {"image_topic": topics.picture(agent), "content_type": "image/jpeg"},
        ),
        Entity(
            "update",
            "bundle",
            "Bundle",
            {
                "state_topic": home,
                "value_template": "{{ {'installed_version': value_json.bundle,"
                " 'latest_version': value_json.newest} | to_json }}",
                "title": "What it classifies with",
            },
        ),
        _button(topics, agent, "contribute", "Contribute now", "mdi:upload"),
        _button(topics, agent, "confirm", "Confirm the last answer", "mdi:check"),
        connectivity(topics.state(agent)),
        _problem(home, "value_json.trouble", "Trouble"),
        _figure(home, "samples", "Samples", {"state_class": "measurement"}),
        _figure(
            home,
            "bytes_today",
            "Sent and received today",
            {
                "unit_of_measurement": "B",
                "device_class": "data_size",
                "state_class": "total_increasing",
            },
        ),
    )


def of_fleet(topics: Topics) -> tuple[Entity, ...]:
    """The coordinator's own: the fleet as a whole."""
    home = topics.fleet_home
    percent = {"unit_of_measurement": "%", "state_class": "measurement"}
    return (
        Entity(
            "sensor",
            "accuracy",
            "Accuracy",
            {
                "state_topic": home,
                "value_template": "{{ (value_json.accuracy * 100) | round(1)"
                " if value_json.accuracy is number else None }}",
                "suggested_display_precision": 1,
                **percent,
            },
        ),
        Entity(
            "sensor",
            "online",
            "Devices there",
            {
                "state_topic": home,
                "value_template": "{{ value_json.online }}",
                "json_attributes_topic": home,
                "state_class": "measurement",
                "icon": "mdi:devices",
            },
        ),
        _figure(home, "devices", "Devices", {"state_class": "measurement"}),
        _problem(home, "value_json.alerts", "Alerts"),
        connectivity(topics.coordinator_state),
    )


def _button(topics: Topics, agent: str, name: str, label: str, icon: str) -> Entity:
    fields = {
        "command_topic": topics.press(agent, name),
        "payload_press": PRESS,
        "retain": False,
        "icon": icon,
    }
    return Entity("button", name, label, fields)


def _problem(home: str, sentences: str, label: str) -> Entity:
    """On where there are sentences; they are in its attributes."""
    fields = {
        "state_topic": home,
        "value_template": f"{{{{ 'ON' if {sentences} else 'OFF' }}}}",
        "json_attributes_topic": home,
        "json_attributes_template": f"{{{{ {{'sentences': {sentences}}} | to_json }}}}",
        "device_class": "problem",
    }
    return Entity("binary_sensor", label.lower(), label, fields, diagnostic=True)


def _figure(home: str, name: str, label: str, fields: Mapping[str, Any]) -> Entity:
    about = {"state_topic": home, "value_template": f"{{{{ value_json.{name} }}}}", **fields}
    return Entity("sensor", name, label, about, diagnostic=True)
