"""Users of SCRAM in the data directory of a broker that does not run: the first ones, before it does.

Owns: writing into the directory. Does not own: users of a running broker (`user` has both), what a login is checked
against (`oncelog.broker.security.scram`). Invariant: what is written are records of the metadata log, as the broker
itself would write them.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog.tools.asking import EXIT_FAILED
from oncelog.tools.terminal import Row, fail

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker


class DirectoryUsers:
    """Users in a data directory; each method ends the command with a sentence if the directory cannot be used."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def add(self, name: str, password: str, mechanism: str, iterations: int) -> None:
        from oncelog.broker.security.scram import SALT_BYTES, SCRAM_MECHANISMS, keys_of, salted_password
        from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord

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

        _in_directory(self._data_dir, change)

    def rows(self) -> list[Row]:
        from oncelog.broker.security.scram import SCRAM_MECHANISMS

        by_number = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}
        rows: list[Row] = []

        def look(broker: "Broker") -> list[Any]:
            for (name, number), credential in sorted(broker.metadata.state.security.scram_credentials.items()):
                rows.append({"user": name, "mechanism": by_number[number], "iterations": credential.iterations})
            return []

        _in_directory(self._data_dir, look, is_read_only=True)
        return rows

    def remove(self, name: str, mechanism: str | None) -> bool:
        from oncelog.broker.security.scram import SCRAM_MECHANISMS
        from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord

        numbers = [each.number for each in SCRAM_MECHANISMS.values() if mechanism in (None, each.name)]
        removed: list[Any] = []

        def change(broker: "Broker") -> list[Any]:
            known = broker.metadata.state.security.scram_credentials
            found = [number for number in numbers if (name, number) in known]
            removed.extend(RemoveUserScramCredentialRecord(name=name, mechanism=number) for number in found)
            return removed

        _in_directory(self._data_dir, change)
        return bool(removed)


def _in_directory(data_dir: Path, change: "Callable[[Broker], list[Any]]", *, is_read_only: bool = False) -> None:
    """Start a broker on the directory that opens no port, write the records that `change` returns, and stop it. A
    read-only one writes nothing, and completes no transaction."""
    from oncelog.broker.assembly.broker import StartError, check_directory
    from oncelog.broker.config.settings import ConfigError, load_config
    from oncelog.broker.storage.local.data_directory import ADOPTED
    from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk
    from oncelog.protocol.errors import KafkaError
    from oncelog.tools.held_directory import check_directories, kept_by_its_owner

    try:
        config, _ = load_config(cli={"log.dirs": str(data_dir), "oncelog.read.only": str(is_read_only).lower()})
        disk = RealDisk(data_dir, read_only=is_read_only)
        try:
            check_directories(data_dir)
            check_directory(config, disk)
            if not is_read_only and disk.exists(ADOPTED):
                raise StartError(f"{data_dir} was adopted, and is read-only until `oncelog serve --writable` on it")
            with kept_by_its_owner(data_dir):
                disk.lock()
                _written(config, disk, change)
        finally:
            disk.close()
    except DataDirectoryLocked as error:
        fail(
            f"{error}: users of a running broker are changed through it, with --bootstrap HOST:PORT instead of "
            "--data-dir",
            EXIT_FAILED,
        )
    except (ConfigError, StartError, KafkaError) as error:
        fail(str(error), EXIT_FAILED)
    except OSError as error:
        fail(f"cannot use {error.filename or data_dir}: {error.strerror or error}", EXIT_FAILED)


def _written(config: Any, disk: Any, change: "Callable[[Broker], list[Any]]") -> None:
    import asyncio

    import structlog

    from oncelog.broker.assembly.broker import assemble
    from oncelog.broker.system.clock import SystemClock, SystemEntropy
    from oncelog.broker.system.loop import LoopScheduler
    from oncelog.broker.turns.completion import Completion
    from oncelog.broker.turns.machine import System

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
