"""The service's loop on a link that is only a list: what it says after trouble, and when another
coordinator speaks.
"""

import io
import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from coordinator.errors import JournalError, Superseded
from coordinator.service.blobs import BlobServer
from coordinator.service.control import Control, Request, ask
from coordinator.service.lookout import Lookout
from coordinator.service.loop import RETRY, Service, ServiceDeps
from protofleet import wire
from protofleet.mqtt.blobs.descriptor import BlobLimits, descriptor_message
from protofleet.mqtt.blobs.sender import OutgoingBlob
from protofleet.mqtt.link.events import Arrival, Connected, Ticket
from protofleet.util.logs import Log
from protofleet.util.systemd import Notifier
from tests.coordinator.made import AGENTS, TOPICS, birth, core, upload


class Wire:
    """A link whose events are scripted, one list a turn; when they are used up it stops the
    service.
    """

    address, connected, pending = "nowhere", True, 0

    def __init__(self):
        self.script, self.said, self.subscribed, self.farewell, self.service = [], [], 0, None, None
        self.now = 0.0

    def publish(self, topic, payload, **how):
        self.said.append((topic, payload))
        return Ticket(None)

    def poll(self, timeout):
        if not self.script:
            self.service.stop()
            return []
        step = self.script.pop(0)
        found = step() if callable(step) else step
        return found or []

    def subscribe(self, filters):
        self.subscribed += 1

    def stop(self, farewell):
        self.farewell = list(farewell)

    def ack(self, *arrivals):
        pass

    def together(self):
        return nullcontext()

    def start(self):
        pass

    def wake(self):
        pass

    def heard(self, kind):
        return [
            wire.decode(payload) for topic, payload in self.said if TOPICS.parse(topic).kind == kind
        ]


def came(topic, payload, retained=False):
    return Arrival(topic, payload, 1, retained, None)


@pytest.fixture
def made(tmp_path):
    """A service, its link and its core."""
    link, inner = Wire(), core(tmp_path / "data", rounds=2)

    def missing(agent, round, digest, ranges):
        return inner.messages.receipt(agent, round, digest, "missing", missing=tuple(ranges))

    post = BlobServer(
        link, TOPICS, BlobLimits(), Path(tmp_path / "spool"), missing, lambda: link.now
    )
    log = Log(io.StringIO())
    link.service = Service(
        ServiceDeps(
            link,
            inner,
            post,
            inner.messages,
            TOPICS,
            log,
            Notifier({}),
            SimpleQueue(),
            frozenset({"older"}),
            Lookout(inner, None, lambda: 0.0),
            clock=lambda: link.now,
        )
    )
    return link.service, link, inner


def later(link, seconds=RETRY + 0.1):
    def pass_time():
        link.now += seconds

    return pass_time


@pytest.mark.parametrize("works_for", range(4))
def test_after_trouble_with_the_journal_the_round_goes_on_and_everything_is_said_again(
    made, works_for
):
    """The disk is full after so many commits of the round's end, and has room again later."""
    service, link, inner = made
    real, left = inner.journal.commit, [None]

    def commit():
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise JournalError("the journal cannot be written: disk full")
        return real()

    def fills():
        left[0] = works_for

    def empties():
        left[0] = None
        link.said.clear()
        link.now += RETRY + 0.1

    inner.journal.commit = commit
    inner.recover(0.0)
    base = inner.state.base
    uploads = [came(TOPICS.upload(a, 1), upload(a, 1, base)[1]) for a in AGENTS]
    births = [came(TOPICS.state(a), birth(a)[1], retained=True) for a in AGENTS]
    link.script = [
        [Connected(False, "5"), *births],
        fills,
        uploads,
        [Connected(True, "5")],
        later(link),
        empties,
    ]
    link.script += [uploads, []]
    service.run()
    assert inner.journal.state_hash(1) is not None
    assert inner.run_state.number == 2
    assert inner.run_state.phase == "collecting"
    assert link.heard("shared_state")[-1].envelope.round == 1
    assert link.heard("round")[-1].envelope.round == 2
    answered = {m.envelope.agent for m in link.heard("receipt")}
    assert answered == set(AGENTS)


def test_a_spool_without_room_costs_the_upload_and_not_the_service(made, tmp_path):
    service, link, inner = made
    inner.recover(0.0)
    base = inner.state.base
    payload = upload("a", 1, base)[1]
    blob = OutgoingBlob(payload, 256)
    slip = descriptor_message(wire.unseal(payload)[0], blob.descriptor)
    chunk = came(TOPICS.upload_chunk("a", blob.descriptor.digest, 0), blob.chunk(0))
    births = [came(TOPICS.state(a), birth(a)[1], retained=True) for a in AGENTS]
    link.script = [[Connected(False, "5"), *births], [came(TOPICS.upload("a", 1), slip)]]
    link.script += [lambda: shutil.rmtree(tmp_path / "spool"), [chunk]]
    link.script += [[came(TOPICS.upload("b", 1), upload("b", 1, base)[1])]]
    service.run()
    assert [(m.envelope.agent, m.body["status"]) for m in link.heard("receipt")] == [
        ("a", "missing"),
        ("b", "accepted"),
    ]


def word(epoch, boot, online=True, retained=False):
    message = wire.encode(
        wire.Envelope(t="state", fleet="orchard", run="r1", epoch=epoch, boot=boot),
        {"online": online},
    )
    return came(TOPICS.coordinator_state, message, retained)


@pytest.mark.parametrize(
    "arrival", [word(2, "other"), word(1, "other"), word(9, "other", online=False, retained=True)]
)
def test_the_newer_epoch_stays_and_the_other_goes_without_a_word(made, arrival):
    service, link, _ = made
    link.script = [[Connected(False, "5")], [arrival]]
    with pytest.raises(Superseded):
        service.run()
    assert link.farewell == []


@pytest.mark.parametrize(
    "arrival",
    [
        word(0, "other"),
        word(1, "another"),
        word(0, "other", online=False),
        word(1, "boot", online=False),
        word(0, "older"),
        word(2**63 - 1, "other"),
        word(2**40, "zzz", online=False),
    ],
)
def test_a_word_that_took_the_place_of_ours_is_answered_with_ours(made, arrival):
    service, link, _ = made
    link.script = [[Connected(False, "5")], link.said.clear, [arrival]]
    service.run()
    (state,) = link.heard("coordinator_state")
    assert (state.body["online"], state.envelope.boot) == (True, "boot")
    assert len(link.farewell) == 1


@pytest.mark.parametrize(
    "arrival", [word(0, "older", retained=True), word(0, "other", retained=True), word(1, "boot")]
)
def test_an_echo_of_the_past_or_of_ourselves_is_no_other_coordinator(made, arrival):
    service, link, _ = made
    link.script = [[Connected(False, "5")], link.said.clear, [arrival]]
    service.run()
    assert link.heard("coordinator_state") == []


def test_however_often_another_speaks_all_is_said_again_once_a_second(made):
    service, link, _ = made
    flood = [word(0, "other") for _ in range(100)]
    link.script = [[Connected(False, "5")], link.said.clear, flood, flood, later(link), flood]
    service.run()
    assert len(link.heard("coordinator_state")) == 2


def test_how_things_stand_is_answered_while_a_fusion_runs(made, tmp_path):
    """From the thread of whoever asks, and within a second."""
    service, link, inner = made
    inner.recover(0.0)
    base, control = (
        inner.state.base,
        Control(tmp_path / "data", service.deps.requests, lambda: None, service.look),
    )
    fusing, done, answers = Event(), Event(), []
    expected = inner.terms.expected

    def fuse(turn, total, before):
        fusing.set()
        assert done.wait(20)
        return expected.recipe.fuse(turn, total, before)

    recipe = replace(expected.recipe, fuse=fuse)
    inner.terms = replace(inner.terms, expected=replace(expected, recipe=recipe))

    def operator():
        assert fusing.wait(20)
        began = time.monotonic()
        answers.extend([ask(tmp_path / "data", "status"), ask(tmp_path / "data", "agents")])
        answers.append(time.monotonic() - began)
        answers.append(ask(tmp_path / "data", "stop"))
        done.set()

    asking = Thread(target=operator)
    asking.start()
    births = [came(TOPICS.state(a), birth(a)[1], retained=True) for a in AGENTS]
    uploads = [came(TOPICS.upload(a, 1), upload(a, 1, base)[1]) for a in AGENTS]
    link.script = [[Connected(False, "5"), *births], uploads, [], []]
    service.run()
    asking.join(20)
    control.close()
    status, agents, seconds, stop = answers
    assert (status["phase"], status["round"], len(agents["agents"])) == ("closing", 1, 3)
    assert seconds < 1.0
    assert stop == {"stopping": True}
    assert inner.journal.state_hash(1) is not None
    assert len(link.script) == 2  # it stopped by that word


def test_chunks_that_come_and_requests_for_them_are_signs_of_life(made):
    service, link, inner = made
    births = [came(TOPICS.state(a), birth(a)[1], retained=True) for a in AGENTS]
    request = came(TOPICS.chunk_request("a"), b"junk")
    chunk = came(TOPICS.upload_chunk("b", "ab" * 32, 0), b"chunk")
    link.script = [[Connected(False, "5"), *births], later(link, 50.0), [request, chunk]]
    service.run()
    assert [inner.devices[a].seen for a in AGENTS] == [50.0, 50.0, 0.0]


def test_what_devices_say_too_often_is_shown(made):
    service, link, _ = made
    nowhere = came(f"{TOPICS.prefix}/d/a/up/x", b"junk")
    link.script = [[came(TOPICS.chunk_request("a"), b"junk")] * 100 + [nowhere] * 3]
    service.run()
    assert service.look(Request("status", {}))["dropped"] == {"request": 40, "topic": 3}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("show", {"round": "the last"}), ("rounds", {"last": None}), ("events", {"before": "x"})],
)
def test_a_question_whose_words_mean_nothing_is_answered_at_once(made, command, arguments):
    assert made[0].look(Request(command, arguments))["code"] == "arguments"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("forget", {}), ("backup", {}), ("revoke", {})],
)
def test_a_command_whose_arguments_mean_nothing_is_answered_and_ends_nothing(
    made, command, arguments
):
    service, link, _ = made
    asked, after = Request(command, arguments), Request("pause", {})
    service.deps.requests.put(asked)
    service.deps.requests.put(after)
    link.script = [[]]
    service.run()
    assert asked.wait(0)["code"] == "arguments"
    assert after.wait(0) == {"paused": True}
