"""What comes is bounded, and what goes says what a browser may do with it."""

from protofleet.pages.guard import ADDRESSES, BODY, BURST, RATE, Guard, Spending
from protofleet.pages.passkey import Passkey
from protofleet.pages.visitors import Policy
from tests.paging import request

KEY = Passkey("t" * 43)
TOKEN = {"authorization": f"Bearer {KEY.token}"}


async def echo(scope, receive, send):
    body = (await receive()).get("body", b"") if scope["method"] == "POST" else b"page"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def guarded(clock=lambda: 0.0, **policy):
    return Guard(echo, Policy(KEY, **policy), ("/",), clock)


def test_every_answer_says_what_a_browser_may_do_with_it():
    app = guarded()
    for path, status in (("/", 200), ("/api/x", 401)):
        answer, headers, _ = request(app, "GET", path)
        content = headers["content-security-policy"]
        assert answer == status
        assert "default-src 'none'" in content
        assert "unsafe" not in content
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_a_body_is_read_whole_or_not_at_all():
    app = guarded()
    assert request(app, "POST", "/do/x", body=b"z" * BODY, **TOKEN)[2] == b"z" * BODY
    assert request(app, "POST", "/do/x", body=b"z" * (BODY + 1), **TOKEN)[0] == 413
    assert request(app, "POST", "/do/x", body=b"z")[0] == 403


def test_an_address_that_asks_too_often_waits_and_others_do_not():
    now = [0.0]
    app = guarded(lambda: now[0])
    answers = [request(app, "GET", "/")[0] for _ in range(int(BURST) + 20)]
    assert answers == [200] * int(BURST) + [429] * 20
    assert request(app, "GET", "/", peer="10.0.0.1")[0] == 200
    now[0] = 1.0
    answers = [request(app, "GET", "/")[0] for _ in range(int(RATE) + 1)]
    assert answers == [200] * int(RATE) + [429]


def test_addresses_that_are_remembered_are_bounded():
    app = guarded()
    for n in range(ADDRESSES + 10):
        request(app, "GET", "/", peer=f"10.0.{n // 256}.{n % 256}")
    assert len(app._spending) == ADDRESSES


def test_a_clock_that_goes_back_gives_nothing_away():
    assert Spending(0.5, 10.0).after(9.0).rest < 0
