"""The link against real brokers: what is promised holds with MQTT 5 and with 3.1.1."""

import os
import signal
import socket
import threading
import time

import pytest

from protofleet.errors import LinkBusy, LinkError
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker.mosquitto import Listening
from protofleet.mqtt.link.link import (
    Arrival,
    Connected,
    Delivered,
    Denied,
    Lost,
    Publication,
    Refused,
    Will,
)
from tests.linking import connect, eventually, poll_for, poll_until


@pytest.fixture
def topic(request):
    """A topic of the test's own: one broker serves them all."""
    return f"t/{request.node.originalname}/{request.node.nodeid.count('embedded')}"


def test_each_broker_is_spoken_to_in_the_newest_version_it_knows(broker, links):
    link = links(broker.address, answer=3600.0)  # told, not guessed from silence
    assert connect(link).protocol == {"mosquitto": "5", "embedded": "3.1.1"}[broker.kind]


def test_what_is_published_arrives_and_is_acknowledged(broker, links, topic):
    link = links(broker.address)
    link.subscribe([(f"{topic}/+", 1)])
    connect(link)
    tickets = [link.publish(f"{topic}/{i}", bytes([i]) * i) for i in range(50)]
    got = poll_for(link, Arrival, 50)
    assert [(a.topic, a.payload) for a in got] == [
        (f"{topic}/{i}", bytes([i]) * i) for i in range(50)
    ]
    assert all(ticket.wait(10) and ticket.refused is None for ticket in tickets)
    assert link.pending == 0


def test_a_subscription_made_while_connected_counts(broker, links, topic):
    link = links(broker.address)
    connect(link)
    link.subscribe([(topic, 1)])
    link.publish(topic, b"x")
    assert poll_for(link, Arrival)[0].payload == b"x"


def test_retained_messages_reach_who_comes_later_and_say_so(broker, links, topic):
    first, second = links(broker.address, "first"), links(broker.address, "second")
    connect(first)
    assert first.publish(topic, b"kept", retain=True).wait(10)
    second.subscribe([(topic, 1)])
    connect(second)
    assert [(a.payload, a.retained) for a in poll_for(second, Arrival)] == [(b"kept", True)]


def test_a_lost_client_leaves_its_will_and_a_stopped_one_its_farewell(
    broker, links, topic, proxied
):
    watcher = links(broker.address, "watcher")
    watcher.subscribe([(topic, 1)])
    connect(watcher)
    proxy, address = proxied(broker)
    lost = links(address, "lost", will=Will(topic, b"lost"))
    connect(lost)
    proxy.refuse()
    proxy.cut()
    assert poll_for(watcher, Arrival)[0].payload == b"lost"
    polite = links(broker.address, "polite", will=Will(topic, b"lost as well"))
    connect(polite)
    polite.stop([Publication(topic, b"left")])
    marker = links(broker.address, "marker")
    connect(marker)
    marker.publish(topic, b"end")
    said = poll_until(
        watcher, lambda events: any(isinstance(e, Arrival) and e.payload == b"end" for e in events)
    )
    assert [a.payload for a in said if isinstance(a, Arrival)] == [b"left", b"end"]


def test_a_farewell_comes_after_all_that_was_published_before(broker, links, topic):
    watcher = links(broker.address, "watcher")
    watcher.subscribe([(topic, 1)])
    connect(watcher)
    link = links(broker.address)
    connect(link)
    for i in range(300):
        link.publish(topic, b"%d" % i)
    link.stop([Publication(topic, b"bye")])
    assert [a.payload for a in poll_for(watcher, Arrival, 301)] == [
        *(b"%d" % i for i in range(300)),
        b"bye",
    ]


def test_cuts_lose_nothing_that_was_published(broker, links, topic, proxied):
    watcher = links(broker.address, "watcher")
    watcher.subscribe([(topic, 1)])
    connect(watcher)
    proxy, address = proxied(broker)
    link = links(address)
    connect(link)
    for i in range(600):
        link.publish(topic, b"%d" % i)
        if i % 100 == 50:
            proxy.cut()
            time.sleep(0.05)
    expected = {b"%d" % i for i in range(600)}
    poll_until(
        watcher, lambda events: {e.payload for e in events if isinstance(e, Arrival)} >= expected
    )
    eventually(lambda: link.pending == 0)


def test_what_was_not_acknowledged_comes_again_on_the_next_connection(
    mosquitto_broker, links, topic, proxied
):
    proxy, address = proxied(mosquitto_broker)  # amqtt keeps nothing for anonymous clients
    link, other = links(address), links(mosquitto_broker.address, "other")
    link.subscribe([(topic, 1)])
    connect(link)
    connect(other)
    for payload in (b"a", b"b"):
        other.publish(topic, payload)
    a, b = poll_for(link, Arrival, 2, ack=False)
    link.ack(a)
    assert link.publish(f"{topic}/x", b"").wait(10)  # the acknowledgement went out before
    proxy.cut()
    assert poll_for(link, Connected)[0].session_present
    again = poll_for(link, Arrival, 1)
    assert [x.payload for x in again] == [b"b"]
    link.ack(b)  # of the connection before: must not be taken for another packet
    other.publish(topic, b"c")
    assert poll_for(link, Arrival)[-1].payload == b"c"


def test_an_acknowledgement_counts_on_its_own_connection_only(
    mosquitto_broker, links, topic, proxied
):
    """Packet ids are used again: a late one must not acknowledge what it was not made for."""
    proxy, address = proxied(mosquitto_broker)
    link, other = links(address), links(mosquitto_broker.address, "other")
    link.subscribe([(topic, 1)])
    connect(link)
    connect(other)
    for payload in (b"a", b"b"):
        other.publish(topic, payload)
    stale = poll_for(link, Arrival, 2, ack=False)
    for _ in range(2):
        proxy.cut()
        again = poll_for(link, Arrival, 2, ack=False)
        assert [x.payload for x in again] == [b"a", b"b"]
        for arrival in stale:
            link.ack(arrival)
        other.publish(topic, b"end")
        last = poll_for(link, Arrival, 1, ack=False)  # the acknowledgements have left by now
        assert [x.payload for x in last] == [b"end"]
        link.ack(last[0])
        assert link.publish(f"{topic}/x", b"").wait(10)  # went out after it


def test_a_broken_link_is_told_with_its_reason_and_comes_back(mosquitto_broker, links, proxied):
    proxy, address = proxied(mosquitto_broker)
    link = links(address)
    connect(link)
    proxy.refuse()
    proxy.cut()
    assert poll_for(link, Lost)[0].reason
    assert not link.connected
    proxy.heal()
    poll_for(link, Connected)
    assert link.connected


def test_an_unreachable_broker_is_named(links, free_port):
    link = links(Address("mqtt", "127.0.0.1", free_port))
    link.start()
    reason = poll_for(link, Lost)[0].reason
    assert f"mqtt://127.0.0.1:{free_port}" in reason
    assert "refused" in reason


def test_silence_longer_than_the_keep_alive_is_a_lost_link(mosquitto_broker, links, topic, proxied):
    proxy, address = proxied(mosquitto_broker)
    link = links(address, keepalive=1)
    link.subscribe([(topic, 1)])
    connect(link)
    proxy.silence()
    ticket = link.publish(topic, b"through")
    poll_for(link, Lost)
    assert not ticket.done
    proxy.heal()
    assert {a.payload for a in poll_for(link, Arrival)} == {b"through"}
    assert ticket.wait(10)


def test_a_full_queue_says_so_and_takes_more_later(mosquitto_broker, links, topic):
    link = links(mosquitto_broker.address, queue_most=10, queue_bytes=1000)
    for _ in range(10):
        link.publish(topic, b"x")
    with pytest.raises(LinkBusy):
        link.publish(topic, b"x")
    connect(link)
    eventually(lambda: link.pending == 0)
    link.publish(topic, bytes(900))
    big = links(mosquitto_broker.address, "big", queue_bytes=1000)
    big.publish(topic, bytes(5000))  # alone it fits
    with pytest.raises(LinkBusy):
        big.publish(topic, b"x")


def test_qos_0_is_dropped_without_a_connection_and_its_ticket_says_so(
    mosquitto_broker, links, topic
):
    link = links(mosquitto_broker.address)
    ticket = link.publish(topic, b"x", qos=0)
    assert (ticket.done, ticket.refused, link.pending) == (True, "no connection", 0)
    link.subscribe([(topic, 0)])
    connect(link)
    assert link.publish(topic, b"y", qos=0).wait(10)
    arrival = poll_for(link, Arrival)[0]
    assert (arrival.payload, arrival.qos, arrival.token) == (b"y", 0, None)


def test_a_reader_that_does_not_keep_up_bounds_what_lies_unread(broker, links, topic):
    """QoS 1 waits with the broker; QoS 0 is dropped and counted."""
    slow, fast = links(broker.address, "slow", receive_maximum=16), links(broker.address, "fast")
    slow.subscribe([(f"{topic}/#", 1)])
    connect(slow)
    connect(fast)
    for i in range(1500):
        fast.publish(f"{topic}/one", b"%d" % i)
        fast.publish(f"{topic}/zero", b"x", qos=0)
    eventually(lambda: fast.pending == 0)
    for _ in range(2000):
        fast.publish(f"{topic}/zero", b"x", qos=0)
    if broker.kind == "mosquitto":
        eventually(lambda: slow.dropped > 0)
        first = slow.poll(5)
        assert sum(isinstance(e, Arrival) and e.qos == 1 for e in first) == 16
        for event in first:
            if isinstance(event, Arrival):
                slow.ack(event)
    else:
        first = []
    known = [e.payload for e in first if isinstance(e, Arrival) and e.qos]
    wanted = {b"%d" % i for i in range(1500)}
    poll_until(
        slow,
        lambda seen: (
            {*known, *(e.payload for e in seen if isinstance(e, Arrival) and e.qos)} >= wanted
        ),
    )


def test_delivered_events_come_for_those_who_asked(broker, links, topic):
    link = links(broker.address)
    connect(link)
    link.publish(topic, b"quiet")
    ticket = link.publish(topic, b"told", tell=True)
    assert [event.ticket for event in poll_for(link, Delivered)] == [ticket]


def test_wake_ends_a_poll(links, free_port):
    link = links(Address("mqtt", "127.0.0.1", free_port))
    timer = threading.Timer(0.05, link.wake)
    timer.start()
    assert link.poll(30) == []
    timer.join()


def test_expired_publications_are_not_sent(links, mosquitto_broker, topic):
    now = [0.0]
    link = links(mosquitto_broker.address, clock=lambda: now[0] + time.monotonic())
    link.subscribe([(topic, 1)])
    old = link.publish(topic, b"old", expiry=5)
    link.publish(topic, b"young", expiry=5000, correlation=b"why")
    now[0] += 100
    connect(link)
    assert [(a.payload, a.correlation) for a in poll_for(link, Arrival)] == [(b"young", b"why")]
    assert "expired" in old.refused


def test_a_topic_that_cannot_be_is_refused_and_the_link_goes_on(mosquitto_broker, links, topic):
    link = links(mosquitto_broker.address)
    connect(link)
    bad = link.publish("a/+/b", b"x")
    assert poll_for(link, Denied)[0].topic == "a/+/b"
    assert bad.refused
    assert link.publish(topic, b"y").wait(10)


def test_a_packet_the_broker_always_hangs_up_on_does_not_hold_up_the_rest(links, topic):
    """A broker that resets the connection at each PUBLISH above a size."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=touchy, args=(server,), daemon=True).start()
        link = links(
            Address("mqtt", "127.0.0.1", server.getsockname()[1]), backoff=lambda attempt: 0.0
        )
        connect(link)
        good, bad, late = (link.publish(topic, bytes(size)) for size in (10, 3000, 20))
        assert poll_for(link, Denied)[0].topic == topic
        assert good.wait(10)
        assert late.wait(10)
        assert (good.refused, late.refused) == (None, None)
        assert "hung up" in bad.refused
        link.stop()


def touchy(server: socket.socket) -> None:
    while True:
        try:
            conn, _ = server.accept()
        except OSError:
            return
        with conn, conn.makefile("rb") as stream:
            conn.settimeout(10)
            while head := stream.read(1):
                size = shift = 0
                while True:
                    (byte,) = stream.read(1)
                    size |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                body = stream.read(size)
                if head[0] >> 4 == 1:
                    conn.sendall(bytes([0x20, 3, 0, 0, 0]))
                elif head[0] >> 4 == 3:
                    if size > 2000:
                        break
                    at = 2 + int.from_bytes(body[:2], "big")
                    conn.sendall(bytes([0x40, 2]) + body[at : at + 2])


def test_nothing_is_left_after_a_stop(mosquitto_broker, links, topic):
    link = links(mosquitto_broker.address)
    connect(link)
    own = f"link-{topic.split('/')[1]}-one"
    assert own in {thread.name for thread in threading.enumerate()}
    link.stop()
    assert own not in {thread.name for thread in threading.enumerate()}
    never = links(Address("mqtt", "127.0.0.1", 1), "never", backoff=lambda attempt: 1000.0)
    waiting = never.publish(topic, b"x")
    never.start()
    poll_for(never, Lost)
    never.stop()
    assert waiting.done
    assert waiting.refused
    with pytest.raises(LinkError):
        never.start()


@pytest.mark.parametrize("kind", ["mosquitto", "embedded"])
def test_a_wrong_password_is_a_clear_word_and_not_the_end(kind, start_broker, links):
    broker = start_broker(prefer=kind, users={"camera-07": "secret"})
    wrong = links(broker.address, "camera-07", own=False, login=("camera-07", "guess"))
    wrong.start()
    assert "refuses" in poll_for(wrong, Refused)[0].reason
    poll_for(wrong, Refused)  # it keeps trying
    wrong.stop()
    nobody = links(broker.address, "camera-08", own=False)
    nobody.start()
    poll_for(nobody, Refused)
    right = links(broker.address, "camera-07", own=False, login=("camera-07", "secret"))
    connect(right)
    assert not isinstance(right.poll(0), Refused)


def test_a_broker_killed_and_started_again_is_found_and_what_it_lost_is_sent_again(
    start_broker, links, topic, tmp_path
):
    first = start_broker(dir=tmp_path / "same")
    port = first.address.port
    sender, reader = links(first.address, "sender"), links(first.address, "reader")
    reader.subscribe([(topic, 1)])
    connect(reader)
    connect(sender)
    assert sender.publish(topic, b"before").wait(10)
    poll_for(reader, Arrival)
    saved = tmp_path / "same" / "mosquitto.db"
    os.kill(first.pid, signal.SIGUSR1)  # write to disk now
    eventually(saved.exists)
    os.kill(first.pid, signal.SIGKILL)
    first.process.wait()
    tickets = [sender.publish(topic, b"%d" % i) for i in range(100)]
    poll_for(sender, Lost)
    start_broker(Listening(port=port), dir=tmp_path / "same")
    connected = poll_until(reader, lambda seen: any(isinstance(e, Connected) for e in seen))
    assert all(ticket.wait(20) and ticket.refused is None for ticket in tickets)
    got = {e.payload for e in connected if isinstance(e, Arrival)}
    wanted = {b"%d" % i for i in range(100)}
    poll_until(
        reader, lambda seen: got | {e.payload for e in seen if isinstance(e, Arrival)} >= wanted
    )


def test_two_that_use_one_login_hear_that_they_push_each_other_out(start_broker, links):
    broker = start_broker(users={"coordinator": "c"})
    both = [links(broker.address, name, login=("coordinator", "c")) for name in ("one", "two")]
    for link in both:
        link.start()

    def suspicions(link):
        return [e for e in link.poll(0.1) if isinstance(e, Lost) and "may use this" in e.reason]

    eventually(lambda: [link for link in both if suspicions(link)])
