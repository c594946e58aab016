"""`protofleet`: finds the installed subcommands and turns every known error into one line and an
exit code.
"""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import EntryPoint, entry_points

import click

import protofleet
from protofleet.errors import FleetError
from protofleet.util.logs import printable

GROUP = "protofleet.commands"
MISSING_EXTRA = {
    "PIL": "images",
    "onnx": "extractor",
    "torch": "train",
    "torchvision": "train",
    "sklearn": "train",
    "matplotlib": "simulators",
    "rich": "simulators",
    "amqtt": "coordinator",
    "starlette": "pages",
    "uvicorn": "pages",
}


class Umbrella(click.Group):
    """A group whose commands are entry points, loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_points())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = _points().get(cmd_name)
        if point is None:
            return None
        command = point.load()
        assert isinstance(command, click.Command)
        return command


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@click.group(
    cls=Umbrella, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(protofleet.__version__, prog_name="protofleet")
def umbrella() -> None:
    """A fleet of devices learns together without sharing data or weights.

    \b
    protofleet demo                                  see it work, in a minute
    protofleet methods                               what can be run
    protofleet simulate --method fedproto --rounds 20
    """


def run(command: click.Command, name: str) -> None:
    """Run a click command with our errors and exit codes: 1 it ran and failed, 2 the call's words
    are wrong.
    """
    # Taken out by hand, so that it may stand anywhere and no command has to declare it.
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        result = command.main(arguments, prog_name=name, standalone_mode=False)
    except FleetError as error:
        _leave(f"{error} ({error.code})", error.exit_code, debug)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.Abort:
        _leave("stopped", 130, debug)
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else name
        _leave(f"{error.format_message()}; see `{place} --help`", 2, debug)
    except click.ClickException as error:
        _leave(error.format_message(), error.exit_code, debug)
    except ModuleNotFoundError as error:
        extra = MISSING_EXTRA.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _leave(f"{error.name} is not installed; pip install 'protofleet[{extra}]'", 1, debug)
    except BrokenPipeError:
        # The reader of our output left. Python would say so on stderr when it flushes at the end.
        sys.stderr.close()
        sys.exit(0)
    else:
        sys.exit(result if isinstance(result, int) else 0)


def _leave(words: str, code: int, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    # Some of the words may be a broker's, a coordinator's or a device's.
    click.echo("\n".join(map(printable, f"error: {words}".splitlines())), err=True)
    sys.exit(code)


def main() -> None:
    """The console command."""
    run(umbrella, "protofleet")
