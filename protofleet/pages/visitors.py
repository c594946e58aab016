"""Who may look at a page and who may steer by it: one pure function of what a request says of
itself.
"""

# Theory of operation
#
#   question                 answer
#   is it for us?            `Host` is an address, localhost, or a name that was given. A page of a
#                            stranger's whose name was bound anew to this machine (DNS rebinding)
#                            says the stranger's name
#   who is it?               one with the token (`Authorization: Bearer`), with a session (cookie),
#                            or whom a reverse proxy names: its header counts from its address alone
#   may it look?             these three; and anybody where a page listens on this machine only and
#                            no proxy stands before it. Behind a proxy everybody comes from here
#   may it steer?            these three
#   is it what the person    a browser sends cookies and passes proxies for any page that makes it
#   wants?                   ask. So whoever has no token in its hands must come from this very page
#                            (`Origin`, `Sec-Fetch-Site`) and say a word that only it can read
#                            (`X-Csrf`). Cookies know no ports: another server of this machine
#                            gets ours sent, and may send requests with it
#
# What is refused is said with a status and one sentence.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from protofleet.pages.passkey import Passkey

SAFE = ("GET", "HEAD")


@dataclass(frozen=True)
class Policy:
    """What a page goes by."""

    passkey: Passkey
    free: bool = False  # looking needs nothing
    names: frozenset[str] = frozenset()  # that the page is called by, beside addresses
    proxies: frozenset[str] = frozenset()  # addresses whose word for a user counts
    user_header: str = "remote-user"
    cookie: str = "protofleet"


@dataclass(frozen=True)
class Inquiry:
    """What a request says of itself; names of headers are small letters."""

    method: str
    path: str
    peer: str  # the address that it comes from
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str:
        """What it says once; nothing if it says it twice."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""


@dataclass(frozen=True)
class Visitor:
    """Who it is."""

    by: Literal["nobody", "token", "session", "proxy"] = "nobody"
    name: str = ""  # a proxy's user
    csrf: str = ""  # what it has to say with words that steer

    @property
    def steers(self) -> bool:
        """Whether anything may be changed."""
        return self.by != "nobody"


@dataclass(frozen=True)
class Denial:
    """Why not."""

    status: int
    words: str


def visitor(policy: Policy, inquiry: Inquiry, now: float) -> Visitor:
    """Whose request this is."""
    scheme, _, token = inquiry.header("authorization").partition(" ")
    if scheme.lower() == "bearer" and policy.passkey.matches(token.strip()):
        return Visitor("token")
    user = inquiry.header(policy.user_header)
    if user and inquiry.peer in policy.proxies:
        return Visitor("proxy", user, policy.passkey.csrf(f"user {user}"))
    session = inquiry.cookies.get(policy.cookie, "")
    if session and policy.passkey.holds(session, now):
        return Visitor("session", csrf=policy.passkey.csrf(session))
    return Visitor()


def verdict(policy: Policy, inquiry: Inquiry, who: Visitor, is_open: bool) -> Denial | None:
    """Why this is not answered; `is_open` is what anybody may see: it says nothing of a fleet."""
    if not for_us(policy, inquiry.header("host")):
        return Denial(421, "this page is not called that: give its name with --name")
    looks = inquiry.method in SAFE
    if who.by == "token" or (looks and (is_open or policy.free)):
        return None
    if not looks and not from_here(inquiry):
        return Denial(403, "only this page itself may ask for that")
    if who.by == "nobody" and not is_open:
        return Denial(401, "sign in with the page's token")
    if not (looks or is_open) and inquiry.header("x-csrf") != who.csrf:
        return Denial(403, "the page is out of date: load it again")
    return None


def for_us(policy: Policy, host: str) -> bool:
    """Whether this is a name of ours, or an address, which nobody can bind anew."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == "localhost" or name in policy.names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def from_here(inquiry: Inquiry) -> bool:
    """Whether a browser says that this page itself made it ask."""
    site = inquiry.header("sec-fetch-site")
    origin = inquiry.header("origin")
    return site in ("", "same-origin") and urlsplit(origin).netloc == inquiry.header("host") != ""
