"""The parts with one broker and one server: what is done to whom, how often, and when."""

from contextlib import suppress
from pathlib import Path

from oncelog.tools.demo.stage import DemoFailed
from tests.proofs.nemesis import Say, counted, crash, kill
from tests.proofs.postgres.broker_log import last_words
from tests.proofs.postgres.world import World
from tests.support.patience import pause

_SOME = 50
"""Number of cut connections between two reports of progress."""
APPLICATION = "oncelog"
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
_FULL_S = 5.0
FRESH_SETTINGS = {"autovacuum": "off", "jit": "on"}
"""Tables are never analyzed, and plans are compiled where PostgreSQL can."""
FULL_SETTINGS = {"max_wal_size": "64MB", "min_wal_size": "32MB"}


def kills(world: World, count: int, say: Say) -> None:
    """The broker, while clients work."""
    for _ in counted(count, "kills", say):
        world.await_progress()
        # What clients do about a broker depends on how long it is away.
        before_s, away_s = world.random.uniform(0.0, 1.0), world.random.choice((0.0, 0.0, 1.0))
        kill(world.broker, before_s=before_s, away_s=away_s)
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
            if done >= said + _SOME:
                said = done
                world.await_progress()
                say(f"{done} of {count} connections cut")
    world.await_progress()


def crashes(world: World, count: int, say: Say) -> None:
    """PostgreSQL is stopped `immediate`, and started."""
    for _ in counted(count, "crashes", say):
        world.await_progress()
        before_s, away_s = world.random.uniform(0.0, 1.0), world.random.choice((0.0, 0.5, 2.0))
        crash(world.server, before_s=before_s, away_s=away_s)
    world.await_progress()


def full(world: World, count: int, say: Say) -> None:
    """The disk of PostgreSQL fills up, and has space again after a while."""
    filler = world.server.directory.parent / "filler"
    for _ in counted(count, "full disks", say):
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
    world.await_progress()


def _fill(filler: Path) -> None:
    """Write zeros until the file system is full."""
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 16))
