"""The parts with one server: what is killed, how often, and when."""

import signal
from collections.abc import Callable
from typing import NamedTuple

from tests.outbox.proof.dying import MOMENTS, STEPS
from tests.outbox.proof.relays import install
from tests.outbox.proof.world import Counted, World
from tests.support.proofs import pause

Say = Callable[[str], None]
_SOME = 10
"""After so many faults something is said."""
_IDLE_S = 0.5
EXIT_FAILED = 2
_MOST_CALLS = 6
_CALLS = {
    "the topic of positions is made": 1,
    "the position is read": 2,
    "the database is asked where to begin": 2,
    "the slot is started": 1,
    "the last batch is asked for": 1,
    "rows of the table are deleted": 1,
}
"""How often a relay comes to a step that it does not come to all the time."""


class Ending(NamedTuple):
    """Of a part that no relay can go through as if nothing were."""

    counted: Counted
    lost: int
    """Events that one side has lost."""
    said: str
    """What the relay said of it."""


def kills(world: World, count: int, say: Say) -> Counted:
    """The relay, again and again: three of four times while it relays, otherwise during its start."""
    for number in range(count):
        relay = world.start_relay()
        if world.random.random() < 0.75:
            relay.wait_running()
            pause(world.random.uniform(0.0, 1.0))
        else:
            pause(world.random.uniform(0.0, 0.8))
        relay.kill()
        if (number + 1) % _SOME == 0:
            say(f"{number + 1} of {count} kills")
    world.start_relay()
    return world.finish()


def round_kills(world: World, count: int, say: Say) -> Counted:
    """The broker that takes the rows, again and again; where there are two nodes the one that leads."""
    for number in range(count):
        pause(world.random.uniform(0.0, 0.8))
        world.broker.kill()
        pause(world.random.uniform(0.0, 0.3))
        world.broker.start()
        if (number + 1) % _SOME == 0:
            say(f"{number + 1} of {count} kills")
    return world.finish()


def round_crashes(world: World, count: int, say: Say) -> Counted:
    """PostgreSQL, while the broker takes rows."""
    for number in range(count):
        pause(world.random.uniform(0.2, 1.5))
        world.server.stop("immediate")
        pause(world.random.uniform(0.0, 0.5))
        world.server.start()
        say(f"{number + 1} of {count}")
    return world.finish()


def steps_of(carrier: str) -> list[tuple[str, str, int]]:
    """Steps, moments, and whether it is its first call or a later one."""
    return [(step, moment, nth) for step in STEPS[carrier] for moment in MOMENTS for nth in (1, 2)]


def steps(world: World, say: Say) -> Counted:
    chosen = steps_of(world.carrier)
    world.random.shuffle(chosen)
    for number, (step, moment, nth) in enumerate(chosen):
        if nth > 1:
            most = _CALLS.get(step, _MOST_CALLS)
            nth = world.random.randint(min(2, most), most)
        code = world.start_relay(dies=(step, moment, str(nth))).wait()
        if code != -signal.SIGKILL:
            raise RuntimeError(f"{step}, {moment}: the relay ended with {code}")
        if (number + 1) % _SOME == 0:
            say(f"{number + 1} of {len(chosen)} steps")
    world.start_relay()
    return world.finish()


def broker(world: World, count: int, say: Say) -> Counted:
    """The broker, while the relay works; every third time the relay, too."""
    relay = world.start_relay()
    for number in range(count):
        relay.wait_running()
        pause(world.random.uniform(0.2, 1.5))
        world.broker.kill()
        if number % 3 == 2:
            relay.kill()
        pause(world.random.uniform(0.0, 1.0))
        world.broker.start()
        if relay.process.poll() is not None:
            relay = world.start_relay()
        say(f"{number + 1} of {count}")
    return world.finish()


def crashes(world: World, count: int, say: Say) -> Counted:
    """PostgreSQL, while the relay works."""
    relay = world.start_relay()
    for number in range(count):
        relay.wait_running()
        pause(world.random.uniform(0.2, 1.5))
        world.server.stop("immediate")
        pause(world.random.uniform(0.0, 0.5))
        world.server.start()
        say(f"{number + 1} of {count}")
    return world.finish()


def takeovers(world: World, count: int, say: Say) -> Counted:
    """Another relay of the same name, beside the one that runs."""
    relay = world.start_relay()
    for _ in range(count):
        relay.wait_running()
        pause(world.random.uniform(0.1, 1.0))
        fenced, relay = relay, world.start_relay()
        try:
            code = fenced.wait()
        finally:
            fenced.kill()
        if code != EXIT_FAILED or "another relay of this name has taken over" not in fenced.said():
            raise RuntimeError(f"the first relay ended with {code}: {fenced.said()}")
    say(f"{count} were fenced")
    return world.finish()


def dropped(world: World, say: Say) -> Ending:
    """Someone drops the slot: what is committed until there is another is lost, and told."""
    world.start_relay().wait_running()
    pause(world.random.uniform(0.5, 1.5))
    if world.finish().missing:
        raise RuntimeError("something is missing before anything was dropped")
    before = {*world.ledger.committed()}
    world.drop_slot()
    _write_for(world, _IDLE_S)
    gap = {*world.ledger.committed()} - before
    said = refusal(world)
    install(world.dsn, world.name, world.carrier, "--replace-slot")
    if "was made again" not in refusal(world):
        raise RuntimeError("a slot that was made again is not noticed")
    world.start_relay("--go-on").wait_running()
    _write_for(world, _IDLE_S)
    return Ending(world.finish([each for each in world.ledger.committed() if each not in gap]), len(gap), said)


def _write_for(world: World, seconds: float) -> None:
    world.ledger.start()
    pause(seconds)
    world.ledger.stop()


def refusal(world: World) -> str:
    """What a relay says that must end with a sentence; "" if it goes on all the same."""
    relay = world.start_relay()
    if relay.wait_running():
        return ""
    if relay.wait() != EXIT_FAILED:
        raise RuntimeError(relay.said())
    return relay.said().strip().splitlines()[-1].removeprefix("oncelog: ")
