"""`oncelog console`: the console in a browser.

Owns: options, the socket, the line that says where it is. Does not own: the application (`app`), imported when the
command runs, with packages that only it needs.
"""

import signal
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oncelog.console.reading import Reader

from oncelog.http_port import HttpPort, given_token
from oncelog.installing import how_to_install
from oncelog.tools.asking import EXIT_FAILED, choose, cluster_options
from oncelog.tools.metrics_port import metrics_port_options, token_or_fail
from oncelog.tools.terminal import fail, fail_by, fail_on_signals, other_signals, say

_NEEDED = ("jinja2", "starlette", "uvicorn")
_TIMEOUT_S = 3.0
"""How long a request may take. A person waits for the page: that a cluster is down is shown sooner than by a
command."""


def _address(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{text!r} is not of the form HOST:PORT")
    return host.strip("[]"), int(port)


@click.command()
@click.option(
    "--listen",
    "address",
    metavar="HOST:PORT",
    default="127.0.0.1:8480",
    show_default=True,
    callback=_address,
    help="Where browsers find it; port 0 picks a free one. There is no log-in.",
)
@click.option(
    "-m",
    "--metrics",
    "metrics_address",
    metavar="HOST:PORT",
    envvar="ONCELOG_METRICS",
    help="Where the broker serves HTTP: its findings, what share groups have in flight (ONCELOG_METRICS).",
)
@metrics_port_options
@click.option(
    "--faults",
    "faults_address",
    metavar="HOST:PORT",
    help="The broker's oncelog.admin.listen: hold transactions at a step, and let them continue.",
)
@click.option(
    "--faults-token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The token of that port.",
)
@click.option("--faults-ca-file", metavar="FILE", type=click.Path(dir_okay=False), help="PEM, for https://.")
@click.option("--read-only", is_flag=True, help="Fence, abort and write nothing.")
@click.option(
    "--allow-produce",
    is_flag=True,
    help="Write records and hold steps for everyone who reaches the console; else only if this machine alone does.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Answer to this name too, besides localhost and addresses.",
)
@cluster_options
def console(
    address: tuple[str, int],
    metrics_address: str | None,
    token_file: str | None,
    ca_file: str | None,
    faults_address: str | None,
    faults_token_file: str | None,
    faults_ca_file: str | None,
    read_only: bool,
    allow_produce: bool,
    allowed_hosts: tuple[str, ...],
    bootstrap: str | None,
    profile: str | None,
    command_config: str | None,
    timeout_s: float | None,
) -> None:
    """Show a cluster and its transactions in a browser. Ctrl-C stops it.

    Works with any Kafka from 3.0 on, and needs the extra `console` of this package.
    """
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        fail(f"the console needs {', '.join(missing)}: run `{how_to_install('console')}`", EXIT_FAILED)
    chosen = choose(bootstrap, profile, timeout_s or _TIMEOUT_S, command_config)
    try:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        is_any = address[0] == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server(address, family=family, dualstack_ipv6=is_any)
    except OSError as error:
        fail(f"{address[0]}:{address[1]} cannot be listened on: {error.strerror or error}", EXIT_FAILED)
    from oncelog.console.reading import Reader
    from oncelog.console.security import no_writing_of

    fail_on_signals()
    with listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        say(f"oncelog console of {chosen.bootstrap} ready at http://{shown}:{port}; press Ctrl-C to stop")
        witness = HttpPort(metrics_address, token_or_fail(token_file), ca_file) if metrics_address else None
        faults = _faults_port(faults_address, faults_token_file, faults_ca_file)
        reader = Reader(chosen.bootstrap, chosen.timeout_s * 1000, witness, chosen.security, faults)
        no_writing = "" if allow_produce else no_writing_of(host, allowed_hosts)
        _serve(reader, listener, read_only, no_writing, allowed_hosts)


def _faults_port(address: str | None, token_file: str | None, ca_file: str | None) -> HttpPort | None:
    if address is None:
        return None
    try:
        # Without a file there is no token: that of another port may be in the environment.
        return HttpPort(address, given_token({}, token_file), ca_file)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--faults-token-file {token_file}: {getattr(error, 'strerror', None) or error}", EXIT_FAILED)


def _serve(
    reader: "Reader", listener: socket.socket, read_only: bool, no_writing: str, allowed_hosts: tuple[str, ...]
) -> None:
    import uvicorn

    from oncelog.console.app import create_app

    app = create_app(
        reader,
        read_only=read_only,
        no_writing=no_writing,
        allowed_hosts=allowed_hosts,
        is_ending=lambda: server.should_exit,
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, ws="none"))
    ended_by: list[signal.Signals] = []

    def end(number: int, _: object) -> None:
        ended_by.append(signal.Signals(number))
        server.should_exit = True

    for number in other_signals():
        signal.signal(number, end)
    with suppress(KeyboardInterrupt):  # its proper end
        server.run([listener])
    if ended_by:
        fail_by(ended_by[0])
