"""`oncelog user`: users of SCRAM in the data directory of a broker that does not run: the first ones, before it does.

Owns: the options, the rows, writing into the directory. Does not own: users of a running broker, which are changed
through Kafka's API. Invariant: a password is read from the terminal or from standard input, never from the command
line, which others see and shells remember.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.terminal import fail, say, say_json, say_table

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker
    from oncelog.broker.security.scram import ScramMechanism

_EXIT_FAILED = 2
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_data_dir = click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="The data directory of a broker that does not run; a new one may be empty or missing.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_name = click.argument("name", metavar="USER")


@click.group()
def user() -> None:
    """Users of SCRAM in a data directory: add, list, remove."""


@user.command()
@_name
@click.option("--mechanism", type=click.Choice(_MECHANISMS), default="SCRAM-SHA-512", show_default=True)
@click.option("--iterations", type=click.IntRange(4_096, 16_384), default=8_192, show_default=True)
@_data_dir
@_as_json
def add(name: str, mechanism: str, iterations: int, data_dir: Path, as_json: bool) -> None:
    """Give USER a password, a new one if it has one.

    It is asked for at the terminal, or is the first line of standard input.
    """
    from oncelog.broker.security.scram import SALT_BYTES, SCRAM_MECHANISMS, keys_of, salted_password
    from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord

    _check_name(name)
    chosen = SCRAM_MECHANISMS[mechanism]

    def change(broker: "Broker") -> list[Any]:
        salt = (broker.entropy.uuid().bytes + broker.entropy.uuid().bytes)[:SALT_BYTES]
        keys = keys_of(chosen, salted_password(chosen, password, salt, iterations))
        return [
            UserScramCredentialRecord(
                name=name,
                mechanism=chosen.number,
                salt=salt,
                stored_key=keys.stored_key,
                server_key=keys.server_key,
                iterations=iterations,
            )
        ]

    password = _password(name)
    _in_directory(data_dir, change)
    _done(as_json, f"{name} can log in by {mechanism}.", {"user": name, "mechanism": mechanism})


@user.command("list")
@_data_dir
@_as_json
def list_(data_dir: Path, as_json: bool) -> None:
    """Who can log in, and how."""
    rows: list[dict[str, Any]] = []

    def look(broker: "Broker") -> list[Any]:
        by_number = {mechanism.number: mechanism.name for mechanism in _mechanisms()}
        for (name, number), credential in sorted(broker.metadata.state.security.scram_credentials.items()):
            rows.append({"user": name, "mechanism": by_number[number], "iterations": credential.iterations})
        return []

    _in_directory(data_dir, look, is_read_only=True)
    if as_json:
        say_json(rows)
    elif rows:
        say_table(rows)
    else:
        say("There are no users.")


@user.command()
@_name
@click.option("--mechanism", type=click.Choice(_MECHANISMS), help="Only the password of this one; both otherwise.")
@_data_dir
@_as_json
def remove(name: str, mechanism: str | None, data_dir: Path, as_json: bool) -> None:
    """Take all passwords from USER."""
    from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord

    numbers = [each.number for each in _mechanisms() if mechanism in (None, each.name)]

    def change(broker: "Broker") -> list[Any]:
        known = broker.metadata.state.security.scram_credentials
        found = [number for number in numbers if (name, number) in known]
        if not found:
            raise LookupError(f"{name} has no such password; `oncelog user list` shows who has which")
        return [RemoveUserScramCredentialRecord(name=name, mechanism=number) for number in found]

    _in_directory(data_dir, change)
    _done(as_json, f"{name} can log in no more{f' by {mechanism}' if mechanism else ''}.", {"user": name})


def _mechanisms() -> "list[ScramMechanism]":
    from oncelog.broker.security.scram import SCRAM_MECHANISMS

    return list(SCRAM_MECHANISMS.values())


def _check_name(name: str) -> None:
    try:
        if not name or len(name.encode()) > 32_767:
            fail("a name has 1 to 32,767 bytes", _EXIT_FAILED)
    except UnicodeEncodeError:
        fail("a name is UTF-8", _EXIT_FAILED)


def _password(name: str) -> str:
    if sys.stdin.isatty():
        password: str = click.prompt(f"Password of {name!a}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        fail("a password has at least one character: write it as the first line of standard input", _EXIT_FAILED)
    return password


def _done(as_json: bool, sentence: str, row: dict[str, Any]) -> None:
    if as_json:
        say_json(row)
    else:
        say(sentence)


def _in_directory(data_dir: Path, change: "Callable[[Broker], list[Any]]", *, is_read_only: bool = False) -> None:
    """Start a broker on the directory that opens no port, write the records that `change` returns, and stop it. A
    read-only one writes nothing, and completes no transaction."""
    from oncelog.broker.assembly.broker import StartError, check_directory
    from oncelog.broker.config.settings import ConfigError, load_config
    from oncelog.broker.storage.local.data_directory import ADOPTED
    from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
    from oncelog.protocol.errors import KafkaError

    try:
        config, _ = load_config(cli={"log.dirs": str(data_dir), "oncelog.read.only": str(is_read_only).lower()})
        disk = RealDisk(data_dir, read_only=is_read_only)
        try:
            check_directory(config, disk)
            if not is_read_only and disk.exists(ADOPTED):
                raise StartError(f"{data_dir} was adopted, and is read-only until `oncelog serve --writable` on it")
            disk.lock()
            _written(config, disk, change)
        finally:
            disk.close()
    except DataDirectoryLocked as error:
        fail(
            f"{error}: a running broker's users are changed through it, with `kafka-configs.sh --entity-type users` or "
            "any client's admin API",
            _EXIT_FAILED,
        )
    except (ConfigError, StartError, KafkaError, LookupError) as error:
        fail(str(error.args[0] if isinstance(error, LookupError) else error), _EXIT_FAILED)
    except OSError as error:
        fail(f"cannot use {data_dir}: {error.strerror or error}", _EXIT_FAILED)


def _written(config: Any, disk: Any, change: "Callable[[Broker], list[Any]]") -> None:
    import asyncio

    import structlog

    from oncelog.broker.assembly.broker import assemble
    from oncelog.broker.completion import Completion
    from oncelog.broker.machine import System
    from oncelog.broker.system.clock import SystemClock, SystemEntropy
    from oncelog.broker.system.loop import LoopScheduler

    async def result(completion: "Completion[Any]") -> Any:
        ended = asyncio.Event()
        completion.then(lambda _: ended.set())
        await ended.wait()
        return completion.result()

    def stop(error: OSError) -> None:
        raise error

    async def work() -> None:
        scheduler = LoopScheduler(asyncio.get_running_loop(), "flusher")
        silent = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=[_dropped]).bind()
        try:
            system = System(SystemClock(), SystemEntropy(), scheduler, disk, None, stop)
            broker = await result(assemble(config, system, silent))
            records = change(broker)
            if records:
                await result(broker.metadata.write(records))
            problem = broker.logs.close()
            if problem is not None:
                raise problem
        finally:
            scheduler.close()

    asyncio.run(work())


def _dropped(_logger: Any, _level: str, _event: Any) -> Any:
    import structlog

    raise structlog.DropEvent
