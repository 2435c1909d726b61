"""The parts with a standby: the primary crashes, and the standby is promoted.

A synchronous standby has all that was committed, and the slot, since the primary holds events back until it has them
(`synchronized_standby_slots`, PostgreSQL 17 and later). An asynchronous one may lack commits whose events are in Kafka.
"""

from tests.proofs.nemesis import STANDBY, Say, wait_for_standby
from tests.proofs.outbox.ledger import connected
from tests.proofs.outbox.parts import refusal
from tests.proofs.outbox.world import World
from tests.support.patience import pause
from tests.support.postgres.server import Postgres

_FOLLOWS = {"hot_standby_feedback": "on", "sync_replication_slots": "on"}
_LOOK_S = 0.05


def promoted(world: World, count: int, say: Say) -> None:
    primary, standby = world.server, world.follow(_FOLLOWS)
    wait_for_standby(primary, {"synchronized_standby_slots": STANDBY})
    world.start_relay().wait_running()
    _wait_for_slot(world, standby)
    pause(world.random.uniform(0.5, 2.0))
    primary.stop("immediate")
    standby.promote()
    say("promoted")
    pause(world.random.uniform(1.0, 2.0))


def lost(world: World, count: int, say: Say) -> None:
    primary, standby = world.server, world.follow(_FOLLOWS)
    relay = world.start_relay()
    relay.wait_running()
    _wait_for_slot(world, standby)
    primary.cut_off(standby)
    pause(world.random.uniform(0.5, 1.5))
    world.ledger.stop()
    relay.kill()  # it may have relayed what comes next, or not
    relay = world.start_relay()
    relay.wait_running()
    pause(world.random.uniform(0.5, 1.0))
    primary.stop("immediate")
    standby.promote()
    world.ledger.start()
    relay.wait()
    world.said = refusal(world)
    say(world.said or "it noticed nothing")
    if world.carrier == "poll":
        # Rows may be there again that Kafka has: the sentence says so, and who resumes has decided.
        world.end_relay()
        world.ledger.stop()
        world.missed = {*world.ledger.committed()}
        return
    world.start_relay("--go-on").wait_running()
    pause(world.random.uniform(0.5, 1.0))


def _wait_for_slot(world: World, standby: Postgres) -> None:
    if world.carrier == "poll":
        return
    question = "select exists (select from pg_replication_slots where slot_name = %s and synced and not temporary)"
    with connected(world.server.dsn) as source, connected(standby.dsn) as connection:
        while not connection.execute(question, [world.name]).fetchone()[0]:
            source.execute("select pg_log_standby_snapshot()")
            pause(_LOOK_S)
