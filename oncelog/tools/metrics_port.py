"""Options of commands that ask a broker's HTTP port: `--metrics`, `--metrics-token-file`, `--metrics-ca-file`.

Owns: the options. Does not own: an address that has a default, which its command has for itself, the request
(`oncelog.http_port`). The token itself is no option: others on the machine see the arguments of a command.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from oncelog.http_port import VARIABLE, given_token
from oncelog.tools.asking import EXIT_FAILED
from oncelog.tools.terminal import fail

Command = TypeVar("Command", bound=Callable[..., Any])


def metrics_option(text: str) -> Callable[[Command], Command]:
    """Adds `metrics`, the address, which need not be given."""
    return click.option("-m", "--metrics", metavar="HOST:PORT", envvar=VARIABLE, help=f"{text} ({VARIABLE}).")


def metrics_port_options(command: Command) -> Command:
    """Adds `token_file` and `ca_file`."""
    command = click.option(
        "--metrics-ca-file",
        "ca_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        envvar=f"{VARIABLE}_CA_FILE",
        help=f"PEM, for an address with https:// ({VARIABLE}_CA_FILE).",
    )(command)
    return click.option(
        "--metrics-token-file",
        "token_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        envvar=f"{VARIABLE}_TOKEN_FILE",
        help=f"The token of that port ({VARIABLE}_TOKEN_FILE; {VARIABLE}_TOKEN has the token itself).",
    )(command)


def token_or_fail(file: str | None) -> str | None:
    """Return the token from the option, else from the environment; ends the command if the file cannot be read."""
    try:
        return given_token(os.environ, file)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--metrics-token-file {file}: {getattr(error, 'strerror', None) or error}", EXIT_FAILED)
