"""What is measured: rows of `bench.peers.workloads`, and reading by where the records are.

Owns: how a reader is brought to read from the tail, or from chunks alone.
"""

from collections.abc import Callable
from functools import partial

from bench.peers import workloads as peers
from bench.peers.workloads import Scene, Workload, Written, connected, read_all

_FROM_PEERS = ("produce-wait", "sixteen", "produce-1k")
_TAIL, _CATCH_UP = 30_000, 400_000
"""Records of a kilobyte: what memory holds of what was written last, and three times what it holds at most."""
_OLD = "bench-old"


def fill(scene: Scene) -> None:
    """Write what a reader catches up with later. `scene.count` is the number of records that it reads."""
    written = Written(scene, 1000, topic=_OLD)
    for _ in range(scene.count):
        written.produce()
    written.flush()
    written.check()


def _tail(scene: Scene) -> None:
    topic = f"bench-tail-{scene.until_s:.3f}"
    written = Written(scene, 1000, topic=topic)
    for _ in range(scene.count):
        written.produce()
    written.flush()
    _read(scene, topic)


def _read(scene: Scene, topic: str) -> None:
    consumer = connected(scene, "read_committed", topic)
    with scene.clock:
        read_all(scene, consumer, scene.count)
    consumer.close()


def _rows() -> tuple[Workload, ...]:
    known = {each.key: each for each in peers.WORKLOADS}
    row = partial(Workload, unit_of_work="record", rate=("MB/s", 1e-3))
    catch_up: Callable[[Scene], None] = partial(_read, topic=_OLD)
    return (
        *(known[key] for key in _FROM_PEERS),
        row("tail", "consume 1 kB, just written", count=_TAIL, run=_tail),
        row(CATCH_UP, "consume 1 kB, written long ago", count=_CATCH_UP, run=catch_up),
    )


CATCH_UP = "catch-up"
WORKLOADS = _rows()
