"""Answers to a web address: one POST each, of the document as JSON."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import protofleet
from edge_agent.cameras.saying.outlets import Unsaid, Unwelcome
from protofleet.errors import SettingError

PATIENCE = 10.0  # seconds for an answer
LARGEST = 4096  # bytes of one that are read
LATER = frozenset({408, 425, 429})  # of those that begin with 4: they mean "not now"


class _Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **others: Any) -> None:
        return None  # an answer goes where its owner said, and nowhere else


class WebhookSender:
    """To one address; with a token as `Authorization: Bearer`."""

    def __init__(self, url: str, token: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError("webhook: an http:// or https:// address is due")
        self._url = url
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"protofleet/{protofleet.__version__}",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_word(token)}"
        self._opener = urllib.request.build_opener(_Unredirected)

    def send(self, line: str) -> None:
        """2xx is yes; 408, 425, 429, 5xx and no answer are not now; all else is no."""
        request = urllib.request.Request(self._url, line.encode(), self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=PATIENCE) as response:
                response.read(LARGEST)
        except urllib.error.HTTPError as error:
            with error:
                if error.code < 500 and error.code not in LATER:
                    raise Unwelcome(f"the webhook answers {error.code}") from None
                after = error.headers.get("Retry-After", "")
                raise Unsaid(
                    f"the webhook answers {error.code}", float(after) if after.isdigit() else 0.0
                ) from None
        except (OSError, http.client.HTTPException, ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", error)
            # Its words may hold the address, and that may hold a secret.
            words = getattr(reason, "strerror", None) or type(reason).__name__
            raise Unsaid(f"the webhook cannot be reached ({words})") from None

    def idle(self) -> None:
        """No connection is kept."""

    def close(self) -> None:
        """Nothing is open."""


def _word(path: Path) -> str:
    try:
        word = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise SettingError(f"{path}: the webhook's token cannot be read") from None
    if not word.isprintable() or not word or " " in word:
        raise SettingError(f"{path}: one word is due, the webhook's token")
    return word
