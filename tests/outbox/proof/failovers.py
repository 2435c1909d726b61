"""The parts with a standby: the primary crashes, and the standby is promoted.

A synchronous standby has all that was committed, and the slot, since the primary holds events back until it has them
(`synchronized_standby_slots`, PostgreSQL 17 and later). An asynchronous one may lack commits whose events are in Kafka.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.outbox.proof.ledger import connected
from tests.outbox.proof.parts import Ending, Say, refusal
from tests.outbox.proof.world import Counted, World
from tests.support.postgres import Postgres, need_programs
from tests.support.proofs import pause

STANDBY = "standby"
_FOLLOWS = {"hot_standby_feedback": "on", "sync_replication_slots": "on"}
_WAITS_FOR_IT = {"synchronous_standby_names": STANDBY, "synchronized_standby_slots": STANDBY}
_LOOK_S = 0.05


@contextmanager
def primary(directory: Path) -> Iterator[Postgres]:
    server = Postgres(directory / "primary", need_programs())
    try:
        yield server
    finally:
        server.stop("immediate")


@contextmanager
def _standby(world: World, settings: Mapping[str, str]) -> Iterator[Postgres]:
    found = world.server.standby(world.server.directory.with_name(STANDBY), STANDBY, settings)
    try:
        yield found
    finally:
        world.ledger.stop()
        found.stop("immediate")


def promoted(world: World, say: Say) -> Counted:
    with _standby(world, _FOLLOWS) as standby:
        world.server.configure(_WAITS_FOR_IT)
        world.server.reload()
        world.add_standby(standby)
        world.start_relay().wait_running()
        _wait_for_slot(world, standby)
        pause(world.random.uniform(0.5, 2.0))
        world.server.stop("immediate")
        standby.promote()
        say("promoted")
        pause(world.random.uniform(1.0, 2.0))
        return world.finish()


def lost(world: World, say: Say) -> Ending:
    with _standby(world, _FOLLOWS) as standby:
        world.add_standby(standby)
        relay = world.start_relay()
        relay.wait_running()
        _wait_for_slot(world, standby)
        world.server.cut_off(standby)
        pause(world.random.uniform(0.5, 1.5))
        world.ledger.stop()
        relay.kill()  # it may have relayed what comes next, or not
        world.start_relay().wait_running()
        pause(world.random.uniform(0.5, 1.0))
        world.server.stop("immediate")
        standby.promote()
        world.ledger.start()
        relay = world.relay
        relay.wait()
        said = refusal(world)
        say(said or "it noticed nothing")
        if world.carrier == "poll":
            # Rows may be there again that Kafka has: the sentence says so, and who goes on has decided.
            relay.kill()
            counted = world.finish([])
            return Ending(counted, counted.only_in_kafka, said)
        world.start_relay("--go-on").wait_running()
        pause(world.random.uniform(0.5, 1.0))
        counted = world.finish()
        return Ending(counted, counted.only_in_kafka, said)


def _wait_for_slot(world: World, standby: Postgres) -> None:
    if world.carrier == "poll":
        return
    question = "select exists (select from pg_replication_slots where slot_name = %s and synced and not temporary)"
    with connected(world.server.dsn) as primary, connected(standby.dsn) as connection:
        while not connection.execute(question, [world.name]).fetchone()[0]:
            primary.execute("select pg_log_standby_snapshot()")
            pause(_LOOK_S)
