"""Where a page listens and whom it believes: a section of settings for devices and coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from protofleet.errors import SettingError
from protofleet.settings.fields import setting


@dataclass(frozen=True)
class PageSection:
    """A page for people, in a process of its own."""

    listen: str = setting(
        "",
        "where the page listens, as 127.0.0.1:8321; empty: there is none",
        flag="Serve the page as well, in a process of its own, as 127.0.0.1:8321.",
        flag_name="http",
    )
    names: tuple[str, ...] = setting(
        (), "names that browsers call it by, beside addresses and localhost"
    )
    proxies: tuple[str, ...] = setting(
        (), "addresses of reverse proxies whose word for a user is believed"
    )
    user_header: str = setting("remote-user", "the header in which they name the user")


@dataclass(frozen=True)
class ListenAddress:
    """A host and a port; 0 takes a free one."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> ListenAddress:
        """`127.0.0.1:8321`, `[::1]:8321`, or a port of this machine alone."""
        host, _, port = text.strip().rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) < 65_536):
            raise SettingError(f"{text!r} is no place to listen", "as 127.0.0.1:8321")
        return ListenAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def url(self, port: int) -> str:
        """For a browser on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{'localhost' if host in ('0.0.0.0', '[::]') else host}:{port}/"
