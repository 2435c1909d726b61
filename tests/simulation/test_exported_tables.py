"""Tables that a random history has left, as a data directory and back: nothing is lost, and nothing is added."""

from random import Random
from typing import Any

import pytest

from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.storage.shared.store import open_store
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Slices
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.tools.log.check import examine as examine_files
from oncelog.tools.log.tables.check import examine
from oncelog.tools.log.tables.content import TablesContent
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime
from tests.simulation.tables_world import TablesWorld
from tests.support.postgres.exported import InstantTables, contents, exported, imported


# The later ones are in `make sim` too.
@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, *range(100, 130)))])
def test_tables_become_files_and_tables_again(seed: int) -> None:
    """Tables that are exported, imported and exported again are the same to the byte and whole by both verdicts, and
    brokers on each serve the same partitions.
    """
    world = TablesWorld(seed)
    world.run()
    before = world.database
    require_whole(before)
    files = exported(before)
    assert not examine_files(files).is_damaged
    after = imported(files)
    require_whole(after)
    assert contents(exported(after)) == contents(files)
    told, epochs = zip(*map(said_of, (on_files(files), on_tables(before), on_tables(after))), strict=True)
    assert len(told[0]) > 5
    assert told[0] == told[1] == told[2]
    assert epochs[1] == epochs[2]
    empty = {name for name, said in told[0].items() if name and not said[-1]}
    for name in set(epochs[0]) - empty:  # a start from files forgets the epochs of a log without records
        assert epochs[0][name] == epochs[1][name]


def require_whole(database: Database) -> None:
    found = examine(TablesContent(InstantTables(database)), [], lambda _: None)
    assert not found.is_damaged, found
    assert not found.unknown_directories


def on_files(disk: MemoryDisk) -> VirtualBroker:
    return VirtualBroker(disk=disk.kill())


def on_tables(database: Database) -> VirtualBroker:
    time = VirtualTime()
    database.until_us = 0
    tables = FakeTables(database, time, time, Random(0), takes_time=False)
    opening = Slices(time).run_own(open_store(tables, time, time, _fail))
    while not opening.done:
        time.advance(1)
    return VirtualBroker(store=opening.result(), time=time)


def _fail(error: OSError) -> None:
    raise error


def said_of(broker: VirtualBroker) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that a reader can learn of the partitions, and of the producers; and of the epochs. The metadata log has the
    start, too."""
    said: dict[str, Any] = {}
    epochs: dict[str, Any] = {}
    for log in broker.broker.logs.logs:
        if log.topic.startswith("__") or not log.log_end_offset:
            continue
        batches = []
        for piece in log.replay(log.log_start_offset):
            if isinstance(piece, Completion):
                while not piece.done:
                    broker.time.advance(1)
                piece = piece.result()
            batches += [bytes(batch) for _, batch in piece]
        producers = [
            (state.producer_id, state.producer_epoch, state.current_transaction_first_offset, state.batches)
            for state in log.producer_state.producers()
        ]
        said[log.name] = (
            log.log_start_offset,
            log.last_stable_offset,
            log.high_watermark,
            log.stored.aborted_between(log.log_start_offset, log.log_end_offset),
            sorted(producers),
            batches,
        )
        known = LeaderEpochs(log.epochs.entries)
        known.truncate_start(log.log_start_offset)  # tables may have older ones
        epochs[log.name] = known.entries if batches else log.epochs.end_of(known.latest - 1, log.log_end_offset)
    state = broker.broker.metadata.state
    said[""] = state.cluster_id, sorted(state.topics), state.next_producer_id
    return said, epochs
