"""`protofleet broker`: a broker for a fleet, in the foreground until Ctrl-C or SIGTERM.

mosquitto when it is installed, else the embedded broker. `--print-config` only writes what a broker
of your own needs.
"""

from __future__ import annotations

import secrets
import signal
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import click

from protofleet.errors import BrokerError, UsageError
from protofleet.mqtt.address import loopback
from protofleet.mqtt.broker.mosquitto import (
    COORDINATOR,
    Listening,
    Tls,
    acl_text,
    config_text,
    passes_as_client,
)
from protofleet.mqtt.broker.run import RunningBroker, reloading, running_broker
from protofleet.mqtt.topics import check_name
from protofleet.util.files import OWN_FILE, own_file, own_folder, write_whole
from protofleet.util.logs import printable

EMBEDDED = """\
EMBEDDED BROKER (amqtt): for development on this machine only. It keeps nothing over a restart and \
applies no access
rules. Install mosquitto for anything else."""


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; others reach 0.0.0.0."
)
@click.option("--port", default=1883, show_default=True, help="0 takes a free one.")
@click.option("--ws-port", type=int, help="A port for web sockets as well.")
@click.option(
    "--users",
    type=click.Path(path_type=Path),
    help="A file of `name:password` lines; then others stay out.",
)
@click.option(
    "--user", "names", multiple=True, metavar="NAME", help="A user with a password made up for it."
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="The broker's certificate (PEM).")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key.")
@click.option(
    "--tls-ca",
    type=click.Path(path_type=Path),
    help="Clients must show a certificate of this authority.",
)
@click.option(
    "--members",
    type=click.Path(path_type=Path),
    help="What a coordinator wrote for the broker of a fleet by invitation: its trust/broker. The"
    " door is at the next port.",
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Its files; without, they go when it stops."
)
@click.option(
    "--fleet",
    default="fleet",
    show_default=True,
    help="Whose access rules these are: as in fleet.toml and agent.toml.",
)
@click.option(
    "--embedded", is_flag=True, help="The embedded broker, even where mosquitto is installed."
)
@click.option(
    "--print-config",
    is_flag=True,
    help="Print mosquitto.conf and access rules for a broker of your own.",
)
def broker(
    host: str,
    port: int,
    ws_port: int | None,
    users: Path | None,
    names: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    members: Path | None,
    data_dir: Path | None,
    fleet: str,
    embedded: bool,
    print_config: bool,
) -> None:
    """Run a broker: mosquitto when it is installed, else an embedded one.

    \b
    protofleet broker
    protofleet broker --host 0.0.0.0 --user coordinator --user camera-07 --data-dir broker
    protofleet broker --host 0.0.0.0 --port 8883 --members coordinator-data/trust/broker
    protofleet broker --print-config --fleet orchard
    """
    check_name("fleet", fleet)
    tls = _tls(tls_cert, tls_key, tls_ca, check=not print_config)
    if members is None:
        listening = Listening(host, port, ws_port, tls)
    else:
        listening = _of_members(host, port, ws_port, members)
        tls = listening.tls
    if print_config:
        text = deployment(listening, fleet) if members is None else _of_files(listening)
        click.echo(text, nl=False)
        return
    # On this machine alone everyone may come in; what the network reaches is never open unasked.
    if not (users or names or tls_ca or members or loopback(host)):
        raise UsageError(
            f"{host} is reached by others", "say who may come in with --user, --users or --tls-ca"
        )
    _check_usage(tls)
    with ExitStack() as stack:
        if data_dir is None:
            data_dir = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="protofleet-broker-"))
            )
        logins = _logins(users, names, data_dir)
        # Before the broker is started: a signal that comes while it starts must end it, too. A
        # queue, because a handler may do nothing but wake the loop.
        signals: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            stack.callback(
                signal.signal,
                number,
                signal.signal(number, lambda code, _: signals.put(code)),
            )
        up = stack.enter_context(
            running_broker(
                data_dir,
                listening,
                users=logins or None,
                fleet=fleet,
                prefer="embedded" if embedded else "auto",
            )
        )
        _tell(up, data_dir, names)
        with reloading(up, listening):
            _wait(up, signals)


def _of_members(host: str, port: int, ws_port: int | None, folder: Path) -> Listening:
    """Devices at the port, who was invited at the next one."""
    listening = Listening.of_members(host, port, ws_port, folder.absolute())
    if not (folder / "broker.pem").is_file():
        raise UsageError(f"{folder} holds nothing for a broker", "`coordinator invite` writes it")
    if not port:
        raise UsageError("--members with port 0: invitations name the port", "say --port")
    return listening


def _of_files(at: Listening) -> str:
    """Configuration of a broker that reads the coordinator's files where they lie."""
    lines = "# After each change of those files (an invitation, a revocation): kill -HUP\n"
    return lines + config_text(at, Path("/var/lib/mosquitto"))


def deployment(at: Listening, fleet: str) -> str:
    """Configuration and access rules as one text, with the names of the files they belong in."""
    folder = Path("/etc/mosquitto")
    at = Listening(
        at.host,
        at.port,
        at.ws_port,
        at.tls,
        folder / "protofleet.passwords",
        folder / "protofleet.acl",
    )
    return "\n".join(
        [
            f"# ----- {folder}/conf.d/protofleet.conf",
            f"# Users: mosquitto_passwd -c {at.passwords} coordinator;"
            " then each device by its agent id.",
            config_text(at, Path("/var/lib/mosquitto")),
            f"# ----- {at.acl}",
            acl_text(fleet),
        ]
    )


def _tls(cert: Path | None, key: Path | None, ca: Path | None, check: bool) -> Tls | None:
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        raise UsageError(
            "TLS needs the broker's certificate and its key", "give --tls-cert and --tls-key"
        )
    for file in (cert, key, ca):
        if check and file is not None and not file.is_file():
            raise UsageError(f"{file} is not there")
    return Tls(cert.absolute(), key.absolute(), None if ca is None else ca.absolute())


def _check_usage(tls: Tls | None) -> None:
    """Whether the broker's own certificate opens the door that it stands at."""
    name = None if tls is None or tls.ca is None else passes_as_client(tls)
    if name == COORDINATOR:
        raise UsageError(
            f"the broker's certificate is let in as the user {name}: it has no usage, or that of a"
            " client",
            "sign it with extendedKeyUsage = serverAuth",
        )
    if name is not None:
        click.echo(
            f"warning: the broker's own certificate is let in, as the user {printable(name)}: sign"
            " servers with extendedKeyUsage = serverAuth, or by another authority",
            err=True,
        )


def _logins(file: Path | None, names: Sequence[str], data_dir: Path) -> dict[str, str]:
    """Users and passwords from the file, and made up for the names; a password made up before is
    kept.
    """
    logins: dict[str, str] = {}
    if file is not None:
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--users {file} cannot be read ({type(error).__name__})") from None
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                name, colon, password = line.partition(":")
                if not colon or not password:
                    raise UsageError(f"--users {file}, line {number}: not `name:password`")
                logins[check_name("user", name)] = password
    for name in names:
        logins[check_name("user", name)] = _password(data_dir, name)
    return logins


def _password(data_dir: Path, name: str) -> str:
    """The one that was made up for this user, or one made up now."""
    path = credentials(data_dir, name)
    with suppress(FileNotFoundError):
        password = path.read_text("utf-8").strip().partition(":")[2]
        # An earlier release could be killed between making the file and writing it.
        if password:
            own_file(path)
            return password
    own_folder(own_folder(data_dir) / path.parent.name)
    password = secrets.token_urlsafe(24)
    # Whole or not there: an empty password would be one that anybody can say.
    write_whole(path, f"{name}:{password}\n".encode(), mode=OWN_FILE)
    return password


def credentials(data_dir: Path, name: str) -> Path:
    """Where the password made up for a user is."""
    return data_dir / "credentials" / name


def _tell(up: RunningBroker, data_dir: Path, names: Sequence[str]) -> None:
    if up.kind == "embedded":
        click.echo(EMBEDDED, err=True)
    click.echo(f"broker ({up.kind}) at {up.address}")
    if up.ws_address is not None:
        click.echo(f"  web sockets at {up.ws_address}")
    for name in names:
        click.echo(f"  {name}: credentials in {credentials(data_dir, name)}")
    click.echo("Ctrl-C stops it")


def _wait(up: RunningBroker, signals: SimpleQueue[int]) -> None:
    # A queue and not a flag: `get` returns at once on a signal, and each second we see whether the
    # broker still lives.
    while True:
        try:
            signals.get(timeout=1.0)
            return
        except Empty:
            if not up.alive:
                raise BrokerError(
                    f"the broker ended by itself (exit code {up.process.returncode})"
                ) from None
