"""A service's words to systemd, and silence where nobody listens."""

import os
import socket

from protofleet.util.systemd import Notifier


def test_words_reach_the_socket_and_signs_of_life_are_three_in_the_time_allowed(tmp_path):
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place)
        heard.setblocking(False)
        said = Notifier(
            {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
        )
        said.say("READY=1")
        for now in (0.0, 4.0, 9.9, 10.0, 19.0, 20.5):
            said.alive(now)
        words = []
        while True:
            try:
                words.append(heard.recv(100).decode())
            except BlockingIOError:
                break
    assert words == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]


def test_a_watchdog_that_is_for_another_process_is_none_of_ours(tmp_path):
    assert Notifier({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}).every == 0
    Notifier({}).say("READY=1")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).say("READY=1")
