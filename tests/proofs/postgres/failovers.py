"""The parts in which another database takes the place of the first: a standby, or a backup of it.

A synchronous standby has all that was committed. An asynchronous one, and a backup, lack what came last: the broker
ends with a sentence, the next start reports it, and readers that were further get an error.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.proofs.nemesis import Say, wait_for_standby
from tests.proofs.postgres.broker_log import last_event, last_words
from tests.proofs.postgres.world import World
from tests.support.patience import pause

_NEWS_S = 1.0
"""Time for a client to read and print the responses that it has been sent."""


def promoted(world: World, count: int, say: Say) -> None:
    """The primary crashes, its synchronous standby is promoted. The broker continues, or takes the
    lease again."""
    primary, standby = world.servers
    world.await_progress()
    primary.stop("immediate")
    pause(world.random.uniform(0.0, 1.0))
    standby.promote()
    world.servers.reverse()
    world.await_progress()
    say("promoted")


def change_servers(world: World) -> None:
    """Crash the primary and promote its standby. The old primary is built again as the next standby, so this can be
    repeated."""
    primary, standby = world.servers
    primary.stop("immediate")
    pause(world.random.uniform(0.0, 1.0))
    standby.promote()
    shutil.rmtree(primary.directory)
    world.servers[:] = standby, standby.standby(primary.directory, port=primary.port)
    wait_for_standby(standby)


def lost(world: World, count: int, say: Say) -> None:
    """The primary crashes, a standby is promoted that has not received what came last."""
    primary, standby = world.servers
    world.await_progress()
    primary.cut_off(standby)
    world.await_progress(0)  # what has ended until here the standby may have: on a busy machine the cut takes long
    world.await_progress(20)
    primary.stop("immediate")
    _forgive_loss(world)
    standby.promote()
    world.servers.reverse()
    _go_on_without(world, say)


def restored(world: World, count: int, say: Say) -> None:
    """The database is taken back to a copy of its files (pg_basebackup)."""
    backup = _backup(world)
    world.server.stop("immediate")
    _put_back(world, backup)
    _go_on_without(world, say)


def copied(world: World, count: int, say: Say) -> None:
    """The database is replaced by a copy of its files while no broker runs. Nothing in the copy shows it, so the next
    start needs a hint."""
    import psycopg

    backup = _backup(world)
    world.broker.kill()
    world.server.stop("immediate")
    _put_back(world, backup)
    with psycopg.connect(world.server.dsn, autocommit=True) as connection:
        connection.execute(f"update {world.name}.oncelog_leader set place = ''")
    world.broker.start()
    _say_and_finish(world, say)


def _backup(world: World) -> Path:
    """A copy of the server's files, and progress beyond it."""
    backup = world.server.directory.with_name("backup")
    world.await_progress()
    world.server.backup(backup)
    world.await_progress(20)
    return backup


def _put_back(world: World, backup: Path) -> None:
    _forgive_loss(world)
    shutil.rmtree(world.server.directory)
    backup.rename(world.server.directory)
    world.server.start()


def dumped(world: World, count: int, say: Say) -> None:
    """The database is taken back to a dump (pg_dump), while no broker runs."""

    def lose() -> None:
        world.await_progress(20)
        world.broker.kill()
        _forgive_loss(world)

    world.await_progress()
    dump_and_restore(world, lose)
    world.broker.start()
    _say_and_finish(world, say)


def dump_and_restore(world: World, meanwhile: Callable[[], None]) -> None:
    dump = world.server.directory.with_name("dump")
    address = ("-h", "127.0.0.1", "-p", str(world.server.port), "-U", "postgres")
    world.server.run("pg_dump", *address, "-Fc", "-n", world.name, "-f", str(_writable(dump)), "postgres")
    meanwhile()
    world.server.run("pg_restore", *address, "--clean", "-d", "postgres", str(dump))


def _forgive_loss(world: World) -> None:
    pause(_NEWS_S)
    world.forgive_loss()


def _go_on_without(world: World, say: Say) -> None:
    """The broker must end by itself, and is started again."""
    broker = world.broker
    code = broker.wait()
    if not code:
        raise RuntimeError("the broker has ended as if all were well")
    world.said.append(last_words(broker))
    say(world.said[-1])
    broker.start()
    _say_and_finish(world, say)


def _say_and_finish(world: World, say: Say) -> None:
    world.said.append(last_event(world.broker, "database.restored"))
    say(world.said[-1] or "the next start noticed nothing")
    world.await_progress()


def _writable(file: Path) -> Path:
    """A file that the programs' user may write."""
    file.touch()
    file.chmod(0o666)
    return file
