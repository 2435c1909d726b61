"""Compaction and transactions: what a committed transaction deleted stays deleted, what one aborted changes nothing.

The scenes, and how a step is written: `tests.support.logs.compaction_scenes`.
"""

import re

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.logs import Logs
from tests.property.test_log_compaction import latest, read
from tests.support.logs.compaction_scenes import SCENES

CONFIG = LogConfig(
    cleanup_policy="compact", segment_bytes=100, delete_retention_ms=1_000, min_cleanable_dirty_ratio=0.01
)
_WRITE = re.compile(r"(?:(?P<producer>\d)(?P<kind>[:!]))?(?P<key>\w)=(?P<value>\w*)\Z")
_END = re.compile(r"(?P<producer>\d)(?P<bump>\^?)(?P<outcome>[+-])\Z")


class Scene:
    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._logs = Logs(config=CONFIG, cleaner_memory_bytes=memory_bytes)
        self.log = self._logs.open()

    def play(self, script: str) -> None:
        for step in script.split():
            self._logs.clock.time_ms += 1
            if found := _WRITE.match(step):
                self._write(found["producer"], found["kind"] == ":", found["key"], found["value"])
            elif found := _END.match(step):
                producer_id = int(found["producer"])
                state = self.log.producer_state.producer(producer_id)
                epoch = (state.producer_epoch if state else 0) + len(found["bump"])
                self._logs.end_transaction(self.log, producer_id, epoch, committed=found["outcome"] == "+")
            else:
                self._turn(step)

    def _write(self, producer: str | None, transactional: bool, key: str, value: str) -> None:
        record = Record(0, self._logs.clock.time_ms, key.encode(), value.encode() or None)
        identity = {}
        if producer is not None:
            state = self.log.producer_state.producer(int(producer))
            identity = {
                "producer_id": int(producer),
                "producer_epoch": state.producer_epoch if state else 0,
                "base_sequence": state.last_sequence + 1 if state else 0,
                "transactional": transactional,
            }
        self._logs.append(self.log, memoryview(encode_batch([record], **identity)))  # type: ignore[arg-type]

    def _turn(self, step: str) -> None:
        self._logs.flush()
        if step == "/":
            self._logs.compact()
        elif step == "~":
            self._logs.clock.time_ms += CONFIG.delete_retention_ms
        elif step == "R":
            self._restart()
        else:
            assert step[0] == ">"
            self._logs.delete_records(self.log, int(step[1:]))

    def _restart(self) -> None:
        """Restart on a disk that has lost any file but the `.log`: all else is rebuilt from what compaction left."""
        before, problems = read(self.log, FetchIsolation.TXN_COMMITTED), self._logs.compaction_problems
        stable = self.log.last_stable_offset
        snapshots = [name for name in self._logs.disk.list_dir("topic-0") if name.endswith(".snapshot")]
        for known in [*snapshots, ""]:
            disk = self._logs.disk.kill()
            disk.delete(CLEANER_OFFSET)
            for name in disk.list_dir("topic-0"):
                if name.endswith((".snapshot", ".batches", "index")) and name[:20] != known[:20]:
                    disk.delete(f"topic-0/{name}")
            wall_ms = self._logs.clock.time_ms
            again = Logs(disk, config=CONFIG, wall_ms=wall_ms, cleaner_memory_bytes=self._memory_bytes)
            self.log = again.open()
            assert not problems and self.log.offline_error is None
            assert self.log.last_stable_offset == stable, f"a transaction is open again, by {known}"
            assert read(self.log, FetchIsolation.TXN_COMMITTED) == before
        self._logs = again

    def state(self) -> dict[str, str]:
        self._logs.flush()
        assert not self._logs.compaction_problems
        return state_of(self.log)


def state_of(log: PartitionLog) -> dict[str, str]:
    """The table that a read_committed reader from the start adds up, without the filler."""
    found = latest(read(log, FetchIsolation.TXN_COMMITTED))
    return {key.decode(): value.decode() for key, value in found.items() if key is not None and value and key != b"f"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("memory_bytes", [1_000_000, 1], ids=["one round", "a round a batch"])
@pytest.mark.parametrize("name", SCENES)
def test_a_read_committed_reader_gets_what_was_committed_last(name: str, memory_bytes: int) -> None:
    script, expected = SCENES[name]
    compacted, plain = Scene(memory_bytes), Scene(memory_bytes)
    compacted.play(script)
    plain.play(script.replace("/", ""))
    assert compacted.state() == plain.state() == dict(pair.split("=") for pair in expected.split())


def test_a_reader_gets_to_the_last_stable_offset_though_compaction_left_no_record_before_it() -> None:
    """A reader "to the end", as Kafka Connect is of its topics, would otherwise wait for the transaction."""
    scene = Scene(1_000_000)
    scene.play("k=v k= 1:j=w / ~ R /")
    assert scene.log.last_stable_offset == 2 < scene.log.high_watermark
    assert read(scene.log, FetchIsolation.TXN_COMMITTED) == []
