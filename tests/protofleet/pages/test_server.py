"""A page's process: where it listens, what it takes, how it ends."""

import http.client
import signal
import socket
import subprocess
import sys

import pytest

from protofleet.errors import SettingError
from protofleet.pages.server import greeting, policy_of
from protofleet.settings.page import PageSection

PAGE = """
import sys
from pathlib import Path
from protofleet.pages.feed import Feed
from protofleet.pages.server import behind_a_service, policy_of, serve
from protofleet.pages.site import Site, application
from protofleet.settings.page import ListenAddress, PageSection
folder = Path(sys.argv[1])
policy, _ = policy_of(PageSection(listen="127.0.0.1:0"), folder, "p")
app = application(Site("p", folder, Feed({"n": lambda: {"n": 1}})), policy)
if "child" in sys.argv:
    behind_a_service()
serve(app, ListenAddress("127.0.0.1", 0), lambda url: print(url, flush=True))
"""


def test_looking_is_free_on_this_machine_alone_and_not_behind_a_proxy(tmp_path):
    def free(**section):
        return policy_of(PageSection(**section), tmp_path, "p")[0].free

    assert free(listen="127.0.0.1:1")
    assert not free(listen="0.0.0.0:1")
    assert not free(listen="127.0.0.1:1", proxies=("127.0.0.1",))
    with pytest.raises(SettingError, match="no address"):
        free(listen="127.0.0.1:1", proxies=("proxy",))


def test_the_token_is_told_once(tmp_path):
    policy, fresh = policy_of(PageSection(listen="127.0.0.1:1"), tmp_path, "p")
    assert policy.passkey.token in greeting("http://x/", policy, tmp_path, fresh)
    policy, fresh = policy_of(PageSection(listen="127.0.0.1:1"), tmp_path, "p")
    assert policy.passkey.token not in greeting("http://x/", policy, tmp_path, fresh)


def test_a_process_of_its_own_serves_streams_and_ends_with_a_signal(tmp_path):
    (tmp_path / "index.html").write_text("<p>hello</p>")
    command = [sys.executable, "-c", PAGE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            stream.request("GET", "/api/live?of=n")
            events = stream.getresponse()
            while not events.readline().startswith(b"data: {"):
                pass
            page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            page.request("GET", "/api/n")
            assert page.getresponse().read() == b'{"n":1}'
            # A head without end is no request, and costs nobody else anything.
            with socket.create_connection(("127.0.0.1", port), timeout=60) as endless:
                endless.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 20_000)
                assert b"400" in endless.recv(64)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_services_page_ends_when_the_service_does(tmp_path):
    command = [sys.executable, "-c", PAGE, str(tmp_path), "child"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout.readline()
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()
