"""`oncelog user`: users of SCRAM, of any Kafka-compatible cluster, or in the data directory of a broker that does not
run: the first ones, before it does.

Owns: the options, the rows, users of a cluster. Does not own: users in a directory (`user_directory`). Invariant: a
password is read from the terminal, from a file or from standard input, never from the command line, which others see
and shells remember.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import EXIT_FAILED, connection_options, reach, run
from oncelog.tools.terminal import Row, confirm, fail, say, say_json, say_table, yes_option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncelog.client.wire.security import ScramMechanism
    from oncelog.tools.profiles import Target

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class _Users(Protocol):
    """A place of users; each method ends the command with a sentence if it cannot be reached."""

    def add(self, name: str, password: str, mechanism: "ScramMechanism", iterations: int) -> None: ...

    def rows(self) -> list[Row]: ...

    def remove(self, name: str, mechanism: "ScramMechanism | None") -> bool:
        """Remove a user's password; return False if there is none."""


class _ClusterUsers:
    def __init__(self, chosen: "Target") -> None:
        self._chosen = chosen

    def _run(self, work: "Callable[[Any], Awaitable[Any]]") -> Any:
        return run(self._chosen, False, False, work, self._chosen.timeout_s)

    def add(self, name: str, password: str, mechanism: "ScramMechanism", iterations: int) -> None:
        from oncelog.client.admin.security import UserScramCredentialUpsertion

        made = UserScramCredentialUpsertion(name, password, mechanism, iterations)
        self._run(lambda session: session.admin.alter_user_scram_credentials(made))

    def rows(self) -> list[Row]:
        found = self._run(lambda session: session.admin.describe_user_scram_credentials())
        return [
            {"user": name, "mechanism": mechanism, "iterations": iterations}
            for name, credentials in sorted(found.items())
            for mechanism, iterations in sorted(credentials.items())
        ]

    def remove(self, name: str, mechanism: "ScramMechanism | None") -> bool:
        """Remove passwords, with one request for each: Kafka changes no user twice in one."""
        from oncelog.client.admin.security import UserScramCredentialDeletion

        async def work(session: Any) -> bool:
            known = (await session.admin.describe_user_scram_credentials(name)).get(name, {})
            found = [each for each in known if mechanism in (None, each)]
            for each in found:
                await session.admin.alter_user_scram_credentials(UserScramCredentialDeletion(name, each))
            return bool(found)

        return bool(self._run(work))


def _users(
    data_dir: Path | None,
    bootstrap: str | None,
    profile: str | None,
    timeout_s: float | None,
    command_config: str | None,
) -> _Users:
    if data_dir is None:
        return _ClusterUsers(reach(bootstrap, profile, timeout_s, command_config))
    if bootstrap or profile or command_config:
        raise click.UsageError("Name a cluster, or the --data-dir of a broker that does not run.")
    from oncelog.tools.user_directory import DirectoryUsers

    return DirectoryUsers(data_dir)


def _place_options(function: "Callable[..., Any]") -> "Callable[..., Any]":
    return click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Instead of a cluster: the data directory of a broker that does not run; it may be empty or missing.",
    )(connection_options(function))


_name = click.argument("name", metavar="USER")


@click.group()
def user() -> None:
    """Users who log in by SCRAM, of a cluster or in a data directory: add, list, remove."""


@user.command()
@_name
@click.option("--mechanism", type=click.Choice(_MECHANISMS), default="SCRAM-SHA-512", show_default=True)
@click.option("--iterations", type=click.IntRange(4_096, 16_384), default=8_192, show_default=True)
@click.option("--password-file", type=click.File(), help="Its first line is the password; - is standard input.")
@_place_options
def add(
    name: str, mechanism: "ScramMechanism", iterations: int, password_file: Any, as_json: bool, **place: Any
) -> None:
    """Give USER a password, a new one if it has one.

    It is asked for at the terminal, or is the first line of standard input or of a file.
    """
    _check_name(name)
    users = _users(**place)
    users.add(name, _password(name, password_file), mechanism, iterations)
    _done(as_json, f"{name} can log in by {mechanism}.", {"user": name, "mechanism": mechanism})


@user.command("list")
@_place_options
def list_(as_json: bool, **place: Any) -> None:
    """List who can log in, and how."""
    rows = _users(**place).rows()
    if as_json:
        say_json(rows)
    elif rows:
        say_table(rows)
    else:
        say("There are no users.")


@user.command()
@_name
@click.option("--mechanism", type=click.Choice(_MECHANISMS), help="Only the password of this one; both otherwise.")
@yes_option
@_place_options
def remove(name: str, mechanism: "ScramMechanism | None", yes: bool, as_json: bool, **place: Any) -> None:
    """Take all passwords from USER."""
    _check_name(name)
    confirm(f"Take {mechanism or 'every'} password from {printable_names([name])}?", yes=yes)
    if not _users(**place).remove(name, mechanism):
        fail(f"{name} has no such password; `oncelog user list` shows who has which", EXIT_FAILED)
    _done(as_json, f"{name} can log in no more{f' by {mechanism}' if mechanism else ''}.", {"user": name})


def _check_name(name: str) -> None:
    try:
        if not name or len(name.encode()) > 32_767:
            fail("a name must have 1 to 32,767 bytes", EXIT_FAILED)
    except UnicodeEncodeError:
        fail("a name must be UTF-8", EXIT_FAILED)


def _password(name: str, file: Any) -> str:
    if file is None and sys.stdin is None:
        fail("standard input is closed: name a --password-file", EXIT_FAILED)
    try:
        if file is None and sys.stdin.isatty():
            password: str = click.prompt(f"Password of {name!a}", hide_input=True, confirmation_prompt=True)
        else:
            password = (file or sys.stdin).readline().rstrip("\r\n")
        password.encode()
    except UnicodeError:  # whose message would show it
        fail("a password must be UTF-8", EXIT_FAILED)
    if not password:
        fail("a password must have at least one character: write it as the first line of standard input", EXIT_FAILED)
    return password


def _done(as_json: bool, sentence: str, row: Row) -> None:
    if as_json:
        say_json(row)
    else:
        say(sentence)
