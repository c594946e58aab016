"""What is made known is what Home Assistant accepted (`make homeassistant`), to the word; its
templates read real births and last wills; what is forgotten leaves nothing behind.
"""

import base64
import importlib.util
import json
from pathlib import Path

import jinja2
import pytest

from protofleet import wire
from protofleet.homeassistant import discovery
from protofleet.homeassistant.discovery import IS_ONLINE, Entity, HomeDevice
from protofleet.mqtt.broker.mosquitto import ENTITIES, HOMES, acl_text
from protofleet.mqtt.topics import Topics
from protofleet.trust import keys
from protofleet.trust.sealing import Signer
from protofleet.trust.sequence import WILL, Sequence

TOOL = Path(__file__).parents[3] / "tools" / "homes.py"
T = Topics("orchard")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("homes", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_known_is_what_home_assistant_accepted(tool):
    recorded = json.loads(tool.FILE.read_text())
    assert tool.document() == recorded, "make homeassistant"


def test_the_broker_s_rules_have_every_component(tool):
    used = {topic.split("/")[1] for topic in tool.document()["payloads"] if "/camera-07/" in topic}
    assert used == set(ENTITIES)
    for component in used:
        assert f"pattern write {HOMES}/{component}/%u/+/config" in acl_text("orchard")


def test_templates_make_of_real_words_what_is_due(tool):
    recorded = tool.document()
    for word in recorded["words"]:
        text = base64.b64decode(word["payload"]).decode(discovery.ENCODING)
        for name, due in word["shows"].items():
            (template,) = (
                payload["value_template"]
                for topic, payload in recorded["payloads"].items()
                if payload.get("state_topic") == word["topic"] and topic.split("/")[3] == name
            )
            assert _rendered(template, text).replace(" ", "") == due.replace(" ", "")


def _rendered(template, text):
    """As Home Assistant does, as far as our templates go."""
    environment = jinja2.Environment(autoescape=False)
    environment.filters["to_json"] = json.dumps
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    return environment.from_string(template).render(value=text, value_json=document)


def test_a_will_is_read_under_its_signature_too(tmp_path):
    sequence = Sequence(tmp_path, WILL)
    signer = Signer(keys.new(), sequence)
    for online in (True, False):
        envelope = wire.Envelope(t="birth", fleet="orchard", agent="a", boot="online", seq=0)
        body = {"online": online, "reason": "online", "classes": ["online", "fonline"]}
        sealed = signer.seal(T.state("a"), wire.encode(envelope, body))
        shown = _rendered(f"{{{{ {IS_ONLINE} }}}}", sealed.decode(discovery.ENCODING))
        assert shown == str(online)
    sequence.close()


def test_an_identity_does_not_depend_on_what_a_person_may_change():
    entity = Entity("sensor", "answer", "Answer")
    first = HomeDevice("orchard", "a", "edge device", T.state("a"))
    second = HomeDevice("orchard", "a", "edge device", T.state("a"), "Hall", "http://x/")
    one, other = (discovery.payload(device, entity) for device in (first, second))
    assert one["unique_id"] == other["unique_id"]
    assert one["device"]["identifiers"] == other["device"]["identifiers"]
    assert "suggested_area" not in one["device"]


def test_forgetting_takes_back_every_retained_word():
    device = HomeDevice("orchard", "a", "edge device", T.state("a"))
    said = discovery.discovered(device, discovery.of_device(T, "a"), "homeassistant")
    back = discovery.forgotten(T, "a", "homeassistant")
    assert {p.topic for p in said} < {p.topic for p in back}
    assert {T.sighting("a"), T.picture("a"), T.home("a")} < {p.topic for p in back}
    assert all(p.payload == b"" and p.retain for p in back)
    assert len(discovery.forgotten(T, "no.node", "homeassistant")) == 3


def test_a_name_that_home_assistant_takes_in_no_topic_is_told():
    assert discovery.fits("camera-07_b")
    assert not discovery.fits("camera.07")
