"""The umbrella command `protofleet`: its subcommands come from entry points, so each room brings
its own.
"""

from protofleet.cli.main import main

__all__ = ["main"]
