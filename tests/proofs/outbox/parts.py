"""The parts with one server: what is killed, how often, and when."""

import signal

from tests.proofs.nemesis import Say, counted, crash, kill
from tests.proofs.outbox.dying import MOMENTS, STEPS
from tests.proofs.outbox.relays import install
from tests.proofs.outbox.world import World
from tests.support.patience import pause

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
"""How often a relay reaches a step that it does not reach all the time."""


def kills(world: World, count: int, say: Say) -> None:
    """The relay, again and again: three of four times while it relays, otherwise during its start."""
    for _ in counted(count, "kills", say):
        relay = world.start_relay()
        if world.random.random() < 0.75:
            relay.wait_running()
            pause(world.random.uniform(0.0, 1.0))
        else:
            pause(world.random.uniform(0.0, 0.8))
        relay.kill()
    world.start_relay()


def round_kills(world: World, count: int, say: Say) -> None:
    """The broker that takes the rows, again and again; where there are two nodes the one that leads."""
    for _ in counted(count, "kills", say):
        before_s, away_s = world.random.uniform(0.0, 0.8), world.random.uniform(0.0, 0.3)
        kill(world.broker, before_s=before_s, away_s=away_s)


def round_crashes(world: World, count: int, say: Say) -> None:
    """PostgreSQL, while the broker takes rows."""
    for _ in counted(count, "crashes", say, 1):
        _crash(world)


def _crash(world: World) -> None:
    before_s, away_s = world.random.uniform(0.2, 1.5), world.random.uniform(0.0, 0.5)
    crash(world.server, before_s=before_s, away_s=away_s)


def steps_of(carrier: str) -> list[tuple[str, str, int]]:
    """Steps, moments, and whether it is its first call or a later one."""
    return [(step, moment, nth) for step in STEPS[carrier] for moment in MOMENTS for nth in (1, 2)]


def steps(world: World, count: int, say: Say) -> None:
    chosen = steps_of(world.carrier)
    world.random.shuffle(chosen)
    for number in counted(count, "steps", say):
        step, moment, nth = chosen[number]
        if nth > 1:
            most = _CALLS.get(step, _MOST_CALLS)
            nth = world.random.randint(min(2, most), most)
        code = world.start_relay(dies=(step, moment, str(nth))).wait()
        if code != -signal.SIGKILL:
            raise RuntimeError(f"{step}, {moment}: the relay ended with {code}")
    world.start_relay()


def broker(world: World, count: int, say: Say) -> None:
    """The broker, while the relay works; every third time the relay, too."""
    relay = world.start_relay()
    for number in counted(count, "kills", say, 1):
        relay.wait_running()
        pause(world.random.uniform(0.2, 1.5))
        world.broker.kill()
        if number % 3 == 2:
            relay.kill()
        pause(world.random.uniform(0.0, 1.0))
        world.broker.start()
        if relay.process.poll() is not None:
            relay = world.start_relay()


def crashes(world: World, count: int, say: Say) -> None:
    """PostgreSQL, while the relay works."""
    relay = world.start_relay()
    for _ in counted(count, "crashes", say, 1):
        relay.wait_running()
        _crash(world)


def takeovers(world: World, count: int, say: Say) -> None:
    """Another relay of the same name, beside the one that runs."""
    relay = world.start_relay()
    for _ in counted(count, "were fenced", say):
        relay.wait_running()
        pause(world.random.uniform(0.1, 1.0))
        fenced, relay = relay, world.start_relay()
        try:
            code = fenced.wait()
        finally:
            fenced.kill()
        if code != EXIT_FAILED or "another relay of this name has taken over" not in fenced.said():
            raise RuntimeError(f"the first relay ended with {code}: {fenced.said()}")


def dropped(world: World, count: int, say: Say) -> None:
    """The slot is dropped: what is committed until there is another is lost, and reported."""
    world.start_relay().wait_running()
    pause(world.random.uniform(0.5, 1.5))
    if world.finish().missing:
        raise RuntimeError("something is missing before anything was dropped")
    before = {*world.ledger.committed()}
    world.drop_slot()
    _write_for(world, _IDLE_S)
    world.missed = {*world.ledger.committed()} - before
    world.lost = len(world.missed)
    world.said = refusal(world)
    install(world.dsn, world.name, world.carrier, "--replace-slot")
    if "was made again" not in refusal(world):
        raise RuntimeError("a slot that was made again is not noticed")
    world.start_relay("--go-on").wait_running()
    _write_for(world, _IDLE_S)


def _write_for(world: World, seconds: float) -> None:
    world.ledger.start()
    pause(seconds)
    world.ledger.stop()


def refusal(world: World) -> str:
    """Starts a relay that must refuse, and returns its last sentence; "" if it runs all the same."""
    relay = world.start_relay()
    if relay.wait_running():
        return ""
    if relay.wait() != EXIT_FAILED:
        raise RuntimeError(relay.said())
    return relay.said().strip().splitlines()[-1].removeprefix("oncelog: ")
