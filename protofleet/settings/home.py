"""What Home Assistant is told, and where: one section of settings for devices and coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from protofleet.errors import SettingError
from protofleet.settings.fields import setting


@dataclass(frozen=True)
class HomeSection:
    """Whether Home Assistant discovers it."""

    discovery: bool = setting(False, "make it known to Home Assistant, through the fleet's broker")
    prefix: str = setting(
        "homeassistant", "where Home Assistant listens; another one needs broker's rules of its own"
    )
    area: str = setting("", "the area that is suggested when it is first discovered")
    page: str = setting("", "the URL of its own page, which Home Assistant then links to")

    def __post_init__(self) -> None:
        letters = self.prefix.replace("_", "").replace("-", "").replace("/", "")
        if not (letters.isascii() and letters.isalnum()) or self.prefix.strip("/") != self.prefix:
            raise SettingError(
                f"homeassistant.prefix: {self.prefix!r} is no topic",
                "letters, digits, '_', '-' and '/' between them",
            )
        if self.page and not self.page.startswith(("http://", "https://")):
            raise SettingError(f"homeassistant.page: {self.page!r} is no http:// or https:// URL")


@dataclass(frozen=True)
class DeviceHome(HomeSection):
    """Whether Home Assistant discovers this device, and what it may see."""

    pictures: bool = setting(
        False, "show the pictures that were answered, too: they leave this device by that"
    )
