"""The token that lets a page steer: made once, kept beside the data, and what is made of it for a
browser.
"""

# Theory of operation
#
#   token     32 random bytes as text, in a file of the data directory for its owner alone: whoever
#             can read that may steer the fleet anyway
#   session   what a browser gets for it, in a cookie that no script can read: when it ends, and an
#             HMAC of that under the token. Nothing is stored: the page's process may die and start
#             again, and browsers stay signed in. A new token ends all sessions
#   csrf      an HMAC of the session, which only a page of ours can ask for and put in a header
#
# A proxy's user has no session; the same is made of the user's name.

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from protofleet.errors import FleetError
from protofleet.util.files import new_file, own_file

FILE = "page.token"
DAYS = 30  # that a browser stays signed in
SECONDS = DAYS * 86_400


@dataclass(frozen=True)
class Passkey:
    """A page's secret."""

    token: str = field(repr=False)

    def matches(self, text: str) -> bool:
        """Whether somebody has it; it takes as long if not."""
        return hmac.compare_digest(text.encode(), self.token.encode())

    def session(self, now: float) -> str:
        """For a browser that showed the token, until it ends."""
        ends = str(int(now) + SECONDS)
        return f"{ends}.{self._stamp('session', ends)}"

    def holds(self, session: str, now: float) -> bool:
        """Whether this is a session of ours that goes on."""
        ends, _, stamp = session.partition(".")
        if not ends.isascii() or not ends.isdigit() or len(ends) > 12:
            return False
        genuine = hmac.compare_digest(stamp.encode(), self._stamp("session", ends).encode())
        return genuine and int(ends) > now

    def csrf(self, visitor: str) -> str:
        """What a page of ours says with every word that steers; `visitor` is a session or a
        proxy's user.
        """
        return self._stamp("csrf", visitor)

    def _stamp(self, use: str, text: str) -> str:
        return hmac.new(self.token.encode(), f"{use}:{text}".encode(), sha256).hexdigest()


def passkey_of(directory: Path) -> tuple[Passkey, bool]:
    """The token of this data directory, and whether it was made just now: then it is to be shown
    to the owner, once.
    """
    path = directory / FILE
    try:
        if path.exists():
            token = own_file(path).read_text().strip()
            if len(token) < 32 or not token.isascii():
                raise FleetError(f"{path} holds no token", "remove it, and another is made")
            return Passkey(token), False
        token = secrets.token_urlsafe(32)
        with new_file(path) as out:
            out.write(f"{token}\n".encode())
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}") from None
    return Passkey(token), True
