"""Who may look and who may steer."""

import pytest

from protofleet.pages.passkey import Passkey
from protofleet.pages.visitors import Inquiry, Policy, for_us, verdict, visitor

KEY = Passkey("t" * 43)
LOCAL = Policy(KEY, free=True, cookie="c")
PROXIED = Policy(
    KEY, names=frozenset({"fleet.example"}), proxies=frozenset({"10.0.0.1"}), cookie="c"
)
OWN = {"origin": "http://127.0.0.1:8321", "sec-fetch-site": "same-origin"}


def ask(policy, method="GET", *, peer="127.0.0.1", host="127.0.0.1:8321", cookies=None, **headers):
    named = {name.replace("_", "-"): [value] for name, value in headers.items()}
    inquiry = Inquiry(method, "/do/x", peer, {"host": [host], **named}, cookies or {})
    who = visitor(policy, inquiry, 1000.0)
    refusal = verdict(policy, inquiry, who, is_open=False)
    return who.by, None if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8321", True),
        ("localhost:8321", True),
        ("[::1]:8321", True),
        ("192.168.1.7", True),
        ("fleet.example", True),
        ("FLEET.example.", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:8321", False),
        ("", False),
        ("[", False),
    ],
)
def test_a_name_bound_anew_to_this_machine_is_none_of_ours(host, expected):
    assert for_us(PROXIED, host) is expected
    assert (ask(PROXIED, host=host)[1] == 421) is not expected


def test_looking_is_free_where_only_this_machine_can():
    assert ask(LOCAL) == ("nobody", None)
    assert ask(Policy(KEY)) == ("nobody", 401)
    assert ask(Policy(KEY), authorization=f"Bearer {KEY.token}") == ("token", None)
    assert ask(Policy(KEY), authorization="Bearer wrong") == ("nobody", 401)


def test_steering_takes_a_token_or_a_session_with_its_word():
    session = KEY.session(1000.0)
    cookies, word = {"c": session}, KEY.csrf(session)
    own = {name.replace("-", "_"): value for name, value in OWN.items()}
    assert ask(LOCAL, "POST", **own) == ("nobody", 401)
    assert ask(LOCAL, "POST", authorization=f"Bearer {KEY.token}") == ("token", None)
    assert ask(LOCAL, "POST", cookies=cookies, x_csrf=word, **own) == ("session", None)
    assert ask(LOCAL, "POST", cookies=cookies, x_csrf="no", **own) == ("session", 403)
    assert ask(LOCAL, "POST", cookies=cookies, x_csrf=word) == ("session", 403)
    elsewhere = {**own, "origin": "http://127.0.0.1:9999"}
    assert ask(LOCAL, "POST", cookies=cookies, x_csrf=word, **elsewhere) == ("session", 403)
    other_site = {**own, "sec_fetch_site": "same-site"}
    assert ask(LOCAL, "POST", cookies=cookies, x_csrf=word, **other_site) == ("session", 403)
    assert ask(LOCAL, "POST", cookies={"c": "1.x"}, x_csrf=word, **own) == ("nobody", 401)


def test_a_proxys_word_for_a_user_counts_from_its_address_alone():
    assert ask(PROXIED, peer="10.0.0.1", remote_user="ada") == ("proxy", None)
    assert ask(PROXIED, peer="10.0.0.2", remote_user="ada") == ("nobody", 401)
    assert ask(LOCAL, "POST", remote_user="ada") == ("nobody", 403)
    headers = {"host": ["10.0.0.9"], "remote-user": ["ada", "eve"]}
    twice = Inquiry("GET", "/", "10.0.0.1", headers)
    assert visitor(PROXIED, twice, 0.0).by == "nobody"
