"""The parts with several brokers, of which one leads: it ends, hangs or hands over, and another takes over."""

import signal
import time
from collections.abc import Callable, Sequence

from tests.proofs.nemesis import Say, counted, crash
from tests.proofs.postgres.failovers import change_servers, dump_and_restore
from tests.proofs.postgres.parts import APPLICATION, CUT
from tests.proofs.postgres.world import World
from tests.support.patience import pause, until
from tests.support.processes.daemon import Daemon

TURN_S = 24
"""Time between the beginnings of two take-overs of three nodes."""
_TURNS = ("kill", "stop", "kill", "wish", "stop", "kill", "wish", "kill", "stop", "kill")
"""Each way is met by either node: with two, the node that leads changes at each turn."""
IN_TURN = len(_TURNS)
"""How many take-overs `in_turn` makes."""
Also = Callable[[World], None]
"""Another fault in the same moment."""
Way = Callable[[World, Also], None]


def takeovers(world: World, count: int, say: Say) -> None:
    """The broker that leads ends, sleeps past its lease, hands over, or is asked to; the other one takes over. At times
    PostgreSQL crashes, or connections are cut, in the same moment."""
    also = (nothing, nothing, nothing, crash_server, _cut_all)
    for _ in counted(count, "take-overs", say):
        _take_over(world, _WAYS, also)
    world.await_progress()


def three(world: World, count: int, say: Say) -> None:
    """Take-overs of three nodes, one in `TURN_S`: at times two nodes are killed, or one that stands by."""
    began_s = time.monotonic()
    ways = (_killed, _both_killed, _asleep, _asleep, _stopped, _asked, _standby_killed)
    for number in counted(count, "take-overs", say):
        pause(max(0.0, began_s + number * TURN_S - time.monotonic()))
        _take_over(world, ways, (nothing, nothing, nothing, crash_server, _cut_all))
    world.await_progress()


def changes(world: World, count: int, say: Say) -> None:
    """Take-overs; before every second one PostgreSQL changes: its primary crashes, and its synchronous standby is
    promoted. It crashes at times, too."""
    for number in counted(count, "take-overs", say):
        if number % 2:
            world.await_progress()
            change_servers(world)
        _take_over(world, _WAYS, (nothing, nothing, nothing, crash_server))
    world.await_progress()


def fresh(world: World, count: int, say: Say) -> None:
    """The broker that leads is killed: in the first minute of the tables, and as often again in that of tables which
    were restored from a dump. PostgreSQL has never analyzed them. How long it took is said."""
    for number in range(count):
        if number == count // 2:
            _restore_at_rest(world)
        world.await_progress(1)
        world.nodes.await_standbys()
        leader = world.broker
        leader.kill()
        began_s = time.monotonic()
        until(lambda leader=leader: world.broker is not leader)
        kind = "restored" if number >= count // 2 else "new"
        world.said.append(f"{kind} tables: the lease was taken {time.monotonic() - began_s:.2f} s after the kill")
        say(world.said[-1])
        leader.start()
    if world.sql("select count(*) from pg_stat_user_tables where last_autoanalyze is not null"):
        raise RuntimeError("the tables were analyzed: this has measured nothing")
    world.await_progress()


def _restore_at_rest(world: World) -> None:
    """Nothing is lost: no broker runs from before the dump until after the restore."""
    world.await_progress()
    for broker in world.brokers:
        broker.kill()
    dump_and_restore(world, lambda: None)
    for broker in world.brokers:
        broker.start()


def in_turn(world: World, goes_on: Callable[[], None]) -> list[float]:
    """Make take-overs by kill, stop and wish, each once the client has made progress and the other node could lead.

    Returns the seconds from each until the client had made progress again.
    """
    goes_on()
    waits = []
    for way in _TURNS:
        world.nodes.await_standbys()
        leader, standby = world.broker, world.nodes.standbys[0]
        begun_s = time.monotonic()
        match way:
            case "kill":
                leader.kill()
            case "stop":
                leader.stop()
            case "wish":
                _ask_for(world, standby)
        until(lambda standby=standby, asks=way == "wish": _leads(world, standby, asks=asks))
        goes_on()
        waits.append(time.monotonic() - begun_s)
        if not leader.is_running:
            leader.start()
    return waits


def _leads(world: World, standby: Daemon, *, asks: bool) -> bool:
    """A leader with a round in flight when it has stopped takes the lease once more: it has to be asked again."""
    leads = world.broker is standby
    if asks and not leads:
        _ask_for(world, standby)
    return leads


def _ask_for(world: World, standby: Daemon) -> None:
    world.sql(f"update oncelog_lease set wanted = {world.brokers.index(standby) + 1}")


def _take_over(world: World, ways: Sequence[Way], also: Sequence[Also]) -> None:
    world.await_progress()
    world.nodes.await_standbys()
    pause(world.random.uniform(0.0, 1.0))
    how = world.random.choice(ways)
    how(world, world.random.choice(also))


def _killed(world: World, also: Also) -> None:
    _ended(world, Daemon.kill, also)


def _stopped(world: World, also: Also) -> None:
    _ended(world, Daemon.stop, also)


def _ended(world: World, end: Callable[[Daemon], object], also: Also) -> None:
    leader = world.broker
    end(leader)
    also(world)
    await_another(world, leader)
    leader.start()


def _both_killed(world: World, also: Also) -> None:
    """The leader, and the one that takes over."""
    leader = world.broker
    leader.kill()
    also(world)
    await_another(world, leader)
    second = world.broker
    second.kill()
    await_another(world, second)
    leader.start()
    second.start()


def _standby_killed(world: World, also: Also) -> None:
    standby = world.random.choice(world.nodes.standbys)
    standby.kill()
    also(world)
    world.await_progress()
    standby.start()


def _asleep(world: World, also: Also) -> None:
    """When it wakes, it must notice that it leads no more."""
    leader = world.broker
    leader.process.send_signal(signal.SIGSTOP)
    try:
        also(world)
        await_another(world, leader)
    finally:
        leader.process.send_signal(signal.SIGCONT)


def await_another(world: World, leader: Daemon) -> None:
    """Wait until another node leads and clients have seen it. They wait twice for progress: clients may have ended some
    transactions just before."""
    until(lambda: world.broker is not leader)
    world.await_progress()
    world.await_progress()


def _asked(world: World, also: Also) -> None:
    _ask_for(world, world.random.choice(world.nodes.standbys))
    also(world)


_WAYS = (_killed, _killed, _asleep, _asleep, _stopped, _asked)


def nothing(world: World) -> None:
    """No other fault."""


def crash_server(world: World) -> None:
    crash(world.server)


def _cut_all(world: World) -> None:
    import psycopg

    with psycopg.connect(world.server.dsn, autocommit=True) as connection:
        connection.execute(CUT, [APPLICATION])
