"""The parts with one server: what is done to whom, how often, and when."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from oncelog.tools.demo.daemon import DemoFailed
from tests.postgres.proof.broker_log import last_words
from tests.postgres.proof.world import Say, World
from tests.support.patience import PATIENCE_S
from tests.support.proofs import pause

_SOME = 10
"""After so many faults something is said."""
APPLICATION = "oncelog"
_CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
TURN_S = 24
"""From one take-over to the next in `hour`."""
_FULL_S = 5.0
_LOOK_S = 0.05
Also = Callable[[World], None]
"""Another fault in the same moment."""
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
        _say_some(number, count, "kills", say)
    world.await_progress()


def cuts(world: World, count: int, say: Say) -> None:
    """Connections of the broker to PostgreSQL: one of them, or all at once."""
    import psycopg

    done = said = 0
    with psycopg.connect(world.server.dsn, autocommit=True) as connection:
        while done < count:
            pause(world.random.uniform(0.0, 0.4))
            choice = " order by random() limit 1" if world.random.random() < 0.5 else ""
            done += sum(found for (found,) in connection.execute(_CUT + choice, [APPLICATION]))
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
        _say_some(number, count, "crashes", say)
    world.await_progress()


def takeovers(world: World, count: int, say: Say) -> None:
    """The broker that leads ends, sleeps past its lease, hands over, or is asked to; the other one takes over. At times
    PostgreSQL crashes, or connections are cut, in the same moment."""
    for number in range(count):
        _take_over(world, (_killed, _killed, _asleep, _asleep, _stopped, _asked))
        _say_some(number, count, "take-overs", say)
    world.await_progress()


def hour(world: World, count: int, say: Say) -> None:
    """The same at its leisure, where there is one node more: at times two are killed, or one that stands by is."""
    began_s = time.monotonic()
    for number in range(count):
        pause(max(0.0, began_s + number * TURN_S - time.monotonic()))
        _take_over(world, (_killed, _both_killed, _asleep, _asleep, _stopped, _asked, _standby_killed))
        _say_some(number, count, "take-overs", say)
    world.await_progress()


def _take_over(world: World, ways: Sequence[Callable[[World, Also], None]]) -> None:
    world.await_progress()
    _await_standbys(world)
    pause(world.random.uniform(0.0, 1.0))
    how = world.random.choice(ways)
    how(world, world.random.choice((_nothing, _nothing, _nothing, _crash, _cut_all)))


def _await_standbys(world: World) -> None:
    """Until each other node could lead."""
    sound = "select count(*) from oncelog_node where followed >= 0 and until > clock_timestamp()"
    _await(lambda: world.sql(sound) >= world.nodes - 1)


def _killed(world: World, also: Also) -> None:
    leader = world.broker
    leader.kill()
    also(world)
    world.await_progress()
    leader.start()


def _both_killed(world: World, also: Also) -> None:
    """The leader, and the one that takes over."""
    leader = world.broker
    leader.kill()
    also(world)
    world.await_progress()
    second = world.broker
    second.kill()
    world.await_progress()
    leader.start()
    second.start()


def _standby_killed(world: World, also: Also) -> None:
    standby = world.random.choice(world.standbys)
    standby.kill()
    also(world)
    world.await_progress()
    standby.start()


def _stopped(world: World, also: Also) -> None:
    leader = world.broker
    leader.stop()
    also(world)
    world.await_progress()
    leader.start()


def _asleep(world: World, also: Also) -> None:
    """When it wakes, it must notice that it leads no more."""
    leader = world.broker
    leader.process.send_signal(signal.SIGSTOP)
    try:
        also(world)
        _await(lambda: world.broker is not leader)
        world.await_progress()
    finally:
        leader.process.send_signal(signal.SIGCONT)


def _asked(world: World, also: Also) -> None:
    standby = world.random.choice(world.standbys)
    world.sql(f"update oncelog_lease set wanted = {world.brokers.index(standby) + 1}")
    also(world)


def _nothing(world: World) -> None:
    """No other fault."""


def _crash(world: World) -> None:
    world.server.stop("immediate")
    world.server.start()


def _cut_all(world: World) -> None:
    import psycopg

    with psycopg.connect(world.server.dsn, autocommit=True) as connection:
        connection.execute(_CUT, [APPLICATION])


def _await(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"nothing has changed for {PATIENCE_S} s")
        pause(_LOOK_S)


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
            world.said.append(last_words(world.broker.stderr_path))
            world.broker.wait()
            world.broker.start()
        _say_some(number, count, "full disks", say)
    world.await_progress()


def _fill(filler: Path) -> None:
    """Until nothing more can be written there."""
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 16))


def _say_some(number: int, count: int, what: str, say: Say) -> None:
    if (number + 1) % _SOME == 0 or number + 1 == count:
        say(f"{number + 1} of {count} {what}")
