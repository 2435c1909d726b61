"""The auditors bite: each planted fault is caught within so many lives of its world."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.protocol.errors import KafkaError
from tests.history.auditor import HistoryError
from tests.simulation import (
    broker_faults,
    compaction_faults,
    frame_faults,
    lease_faults,
    log_faults,
    outbox_faults,
    pair_faults,
    restored_faults,
    share_faults,
    shared_faults,
    streams_faults,
    tables_faults,
)
from tests.simulation.__main__ import COPY_CHANCE, LEASE_MS, LOG_STEPS
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.lease_world import LeaseWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_faults import Plant, planted, seeds_for
from tests.simulation.log_mixes import COMPACTION, FRAMES
from tests.simulation.log_world import LogWorld
from tests.simulation.outbox_world import OutboxWorld
from tests.simulation.pair_world import PairWorld
from tests.simulation.restored_pair_world import RestoredPairWorld
from tests.simulation.restored_world import RestoredWorld
from tests.simulation.share_world import ShareWorld
from tests.simulation.shared_world import SharedWorld
from tests.simulation.streams_world import StreamsWorld
from tests.simulation.tables_world import TablesWorld

CAUGHT = (AuditError, HistoryError, KafkaError, StartError)


class Bed(NamedTuple):
    """Where plants are put."""

    plants: Sequence[Plant]
    live: Callable[[int], Any]
    """A life of a world, by its seed."""
    seed_count: int
    every: int
    """One in this many of its plants is caught in each run; the others are slow."""
    caught: tuple[type[Exception], ...] = CAUGHT


BEDS = {
    "broker": Bed(broker_faults.PLANTS, lambda seed: BrokerWorld(seed).run(), 200, 20),
    "compaction": Bed(compaction_faults.PLANTS, lambda seed: LogWorld(seed, COMPACTION).run(LOG_STEPS), 200, 5),
    "frames": Bed(frame_faults.PLANTS, lambda seed: LogWorld(seed, FRAMES).run(LOG_STEPS), 20, 1),
    "lease": Bed(lease_faults.PLANTS, lambda seed: LeaseWorld(seed).run(LEASE_MS), 400, 1),
    "log-copies": Bed(
        log_faults.COPY_PLANTS, lambda seed: LogWorld(seed, copy_chance=COPY_CHANCE).run(LOG_STEPS), 200, 1
    ),
    "log-ruins": Bed(
        log_faults.RUIN_PLANTS, lambda seed: LogWorld(seed, ruin_chance=1).run(LOG_STEPS), 200, 1, (AuditError,)
    ),
    "log": Bed(log_faults.PLANTS, lambda seed: LogWorld(seed).run(LOG_STEPS), 200, 4),
    "outbox": Bed(outbox_faults.PLANTS, lambda seed: OutboxWorld(seed).run(), 30, 3),
    "pair": Bed(pair_faults.PLANTS, lambda seed: PairWorld(seed).run(), 60, 5),
    "restored": Bed(restored_faults.PLANTS, lambda seed: RestoredWorld(seed).run(), 80, 6),
    "restored-pair": Bed(restored_faults.OF_SEVERAL_NODES, lambda seed: RestoredPairWorld(seed).run(), 30, 1),
    "share": Bed(share_faults.PLANTS, lambda seed: ShareWorld(seed).run(), 60, 3),
    "shared": Bed(shared_faults.PLANTS, lambda seed: SharedWorld(seed).run(), 60, 7),
    "streams": Bed(streams_faults.PLANTS, lambda seed: StreamsWorld(seed).run(), 60, 3),
    "tables": Bed(tables_faults.PLANTS, lambda seed: TablesWorld(seed).run(), 60, 8),
}


def _all_plants() -> Iterator[Any]:
    for world, bed in BEDS.items():
        for place, plant in enumerate(bed.plants):
            marks = pytest.mark.slow if place % bed.every else ()
            yield pytest.param(world, plant, marks=marks, id=f"{world}-{plant.__name__}")


@pytest.mark.parametrize(("world", "plant"), list(_all_plants()))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught(world: str, plant: Plant) -> None:
    bed = BEDS[world]
    with planted(plant), pytest.raises(bed.caught) as caught:
        for seed in seeds_for(world, plant, bed.seed_count):
            bed.live(seed)
    assert str(caught.value).startswith(pair_faults.FOUND_BY.get(plant, ""))
