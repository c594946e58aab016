"""ProtoFleet: a fleet of devices that learn together without sharing data or weights.

    import protofleet as pf

    pf.simulate("fedproto", (x, y), network=MyNet)      one run in the laboratory
    pf.compare(["local", "fedproto"], (x, y), seeds=5)  several, with intervals
    pf.sweep({"lam": [0.1, 1]}, "fedproto", (x, y))     one over a grid
    pf.Client("camera.pfb", follow="mqtt://broker")     a device that classifies as the fleet does
    pf.Recipe                                           what a method of your own is made of

This package is what both ends share: the vocabulary, the wire, the recipes and what they are made
of. Importing it costs numpy and nothing more; each of these names loads what it needs when it is
used.
"""

# The rooms that these live in import this one, so it does not import them: it finds them by entry
# points of the group "protofleet.interface", as it finds their commands.

from typing import Any

__version__ = "0.1.0"
__all__ = ["Client", "Recipe", "__version__", "compare", "simulate", "sweep"]


def __getattr__(name: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group="protofleet.interface", name=name):
        return point.load()
    raise AttributeError(f"module 'protofleet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
