"""The parts with one broker and one server: what is done to whom, how often, and when."""

from contextlib import suppress
from pathlib import Path

from oncelog.tools.demo.daemon import DemoFailed
from tests.postgres.proof.broker_log import last_words
from tests.postgres.proof.world import Say, World
from tests.support.proofs import pause

_SOME = 10
"""After so many faults something is said."""
APPLICATION = "oncelog"
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
_FULL_S = 5.0
FRESH_SETTINGS = {"autovacuum": "off", "jit": "on"}
"""As where nobody analyzes tables; plans are compiled, where PostgreSQL can."""
FULL_SETTINGS = {"max_wal_size": "64MB", "min_wal_size": "32MB"}


def kills(world: World, count: int, say: Say) -> None:
    """The broker, while clients work."""
    for number in range(count):
        world.await_progress()
        pause(world.random.uniform(0.0, 1.0))
        broker = world.broker
        broker.kill()
        # What clients do about a broker depends on how long it is away.
        pause(world.random.choice((0.0, 0.0, 1.0)))
        broker.start()
        say_some(number, count, "kills", say)
    world.await_progress()


def cuts(world: World, count: int, say: Say) -> None:
    """Connections of the broker to PostgreSQL: one of them, or all at once."""
    import psycopg

    done = said = 0
    with psycopg.connect(world.server.dsn, autocommit=True) as connection:
        while done < count:
            pause(world.random.uniform(0.0, 0.4))
            choice = " order by random() limit 1" if world.random.random() < 0.5 else ""
            done += sum(found for (found,) in connection.execute(CUT + choice, [APPLICATION]))
            if done >= said + 5 * _SOME:
                said = done
                world.await_progress()
                say(f"{done} of {count} connections cut")
    world.await_progress()


def crashes(world: World, count: int, say: Say) -> None:
    """PostgreSQL is stopped `immediate`, and started."""
    for number in range(count):
        world.await_progress()
        pause(world.random.uniform(0.0, 1.0))
        world.server.stop("immediate")
        pause(world.random.choice((0.0, 0.5, 2.0)))
        world.server.start()
        say_some(number, count, "crashes", say)
    world.await_progress()


def full(world: World, count: int, say: Say) -> None:
    """The disk of PostgreSQL fills up, and has space again after a while."""
    filler = world.server.directory.parent / "filler"
    for number in range(count):
        world.await_progress()
        _fill(filler)
        pause(_FULL_S)
        filler.unlink()
        with suppress(DemoFailed):  # it runs already
            world.server.start()
        if world.broker.process.poll() is not None:
            world.said.append(last_words(world.broker))
            world.broker.wait()
            world.broker.start()
        say_some(number, count, "full disks", say)
    world.await_progress()


def _fill(filler: Path) -> None:
    """Until nothing more can be written there."""
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 16))


def say_some(number: int, count: int, what: str, say: Say) -> None:
    if (number + 1) % _SOME == 0 or number + 1 == count:
        say(f"{number + 1} of {count} {what}")
