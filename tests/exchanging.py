"""Settings with which every method exchanges in the two or three rounds that a test runs."""

SETTINGS: dict[str, tuple[str, ...]] = {"gfpl": ("start=1", "interval=1"), "fleet": ("interval=1",)}
