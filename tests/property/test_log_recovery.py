"""Whatever is appended and however the process stops, what comes back is what a simple model says."""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.log.values import EndMarker
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import iter_batches, read_header
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.testing.memory_disk import PowerCut
from tests.fakes.logs import Logs, batch, read_records, segments_of
from tests.support.samples import examples

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
PRODUCERS = 3


@dataclass
class Model:
    """The appended batches (base offset, next offset, bytes as sent or marker as read), and each producer's next
    step.
    """

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    def cut(self, log_end_offset: int) -> None:
        while self.log_end_offset > log_end_offset:
            del self.batches[-1]

    def add(self, log: PartitionLog, base_offset: int, last_offset: int) -> None:
        view = read_records(log, base_offset, 1, FetchIsolation.LOG_END).records
        self.batches.append((base_offset, last_offset + 1, bytes(view)))


@dataclass
class Replay:
    """The brute force: everything derived from the batches of the model, in order."""

    state: ProducerStateManager = field(default_factory=ProducerStateManager)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)  # offsets that read_committed shows, once stable

    @staticmethod
    def of(model: Model) -> "Replay":
        replay = Replay()
        open_transactions: dict[int, list[int]] = {}
        for base_offset, next_offset, data in model.batches:
            header = read_header(memoryview(data))
            offsets = list(range(base_offset, next_offset))
            if header.is_control:
                kind, coordinator_epoch = decode_end_txn_marker(memoryview(data))
                written = open_transactions.pop(header.producer_id, None)
                committed = kind is ControlRecordType.COMMIT
                marker = EndMarker(header.producer_id, header.producer_epoch, committed, coordinator_epoch)
                replay.state.replay_marker(marker, base_offset, header.max_timestamp, 0)
                if written and kind is ControlRecordType.ABORT:
                    replay.aborted.append((header.producer_id, written[0], base_offset))
                elif written:
                    replay.committed.update(written)
            else:
                if header.producer_id >= 0:
                    replay.state.replay_batch(header, base_offset, header.max_timestamp, 0)
                if header.is_transactional:
                    open_transactions.setdefault(header.producer_id, []).extend(offsets)
                else:
                    replay.committed.update(offsets)
        return replay


def append_next(logs: Logs, log: PartitionLog, model: Model, producer_id: int, count: int, transactional: bool) -> None:
    state = log.producer_state.producer(producer_id)
    if state is not None and state.current_transaction_first_offset >= 0:
        transactional = True
    epoch = state.producer_epoch if state else 0
    sequence = state.last_sequence + 1 if state else 0
    data = batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    appended = logs.append(log, data)
    assert not appended.duplicate
    assert appended.base_offset == model.log_end_offset
    model.add(log, appended.base_offset, appended.last_offset)


def retry_old(logs: Logs, log: PartitionLog, producer_id: int, back: int) -> None:
    state = log.producer_state.producer(producer_id)
    if state is None or not state.batches:
        return
    known = state.batches[-1 - back % len(state.batches)]
    end_before = log.log_end_offset
    transactional = state.current_transaction_first_offset >= 0
    count = known.last_offset - known.first_offset + 1
    data = batch(
        count,
        producer_id=producer_id,
        producer_epoch=state.producer_epoch,
        base_sequence=known.first_sequence,
        transactional=transactional,
    )
    appended = logs.append(log, data)
    assert appended.duplicate
    assert (appended.base_offset, appended.last_offset) == (known.first_offset, known.last_offset)
    assert log.log_end_offset == end_before


def end_transaction(logs: Logs, log: PartitionLog, model: Model, producer_id: int, committed: bool, bump: bool) -> None:
    state = log.producer_state.producer(producer_id)
    epoch = (state.producer_epoch if state else 0) + bump
    appended = logs.end_transaction(log, producer_id, epoch, committed=committed)
    model.add(log, appended.base_offset, appended.last_offset)


def check_equal(log: PartitionLog, model: Model) -> None:
    """The log is the model: bytes, producer state, stable offset, index look-ups, aborted transactions."""
    assert log.offline_error is None
    assert log.log_end_offset == model.log_end_offset
    stored = [bytes(data) for _, data in log.batches()]
    assert list(map(covered, stored)) == [covered(data) for _, _, data in model.batches]
    replay = Replay.of(model)
    assert sorted(map(describe, log.producer_state.producers())) == sorted(map(describe, replay.state.producers()))
    assert log.producer_state.ongoing_transactions() == replay.state.ongoing_transactions()
    first_open = min((first for first, _ in replay.state.ongoing_transactions()), default=log.high_watermark)
    if log.high_watermark == log.log_end_offset:
        assert log.last_stable_offset == first_open
    for segment in segments_of(log):
        for offset in range(segment.base_offset, segment.next_offset):
            span = next(segment.spans(segment.position_of(offset)))
            assert span.base_offset <= offset <= span.last_offset
    check_read_committed(log, replay)


def covered(data: bytes) -> bytes:
    """All but the leader epoch, which no checksum covers."""
    return data[:12] + data[16:]


def describe(state: object) -> tuple[object, ...]:
    fields = ("producer_id", "producer_epoch", "coordinator_epoch", "last_timestamp")
    return (
        *(getattr(state, name) for name in fields),
        getattr(state, "current_transaction_first_offset"),  # noqa: B009
        [(b.first_sequence, b.last_sequence, b.first_offset, b.last_offset, b.timestamp) for b in state.batches],  # type: ignore[attr-defined]
    )


def check_read_committed(log: PartitionLog, replay: Replay) -> None:
    """A consumer that knows only fetch responses sees every stable committed record, in order, and nothing else."""
    for max_bytes in (1, 200, 100_000):
        seen: list[int] = []
        offset = log.log_start_offset
        while offset < log.last_stable_offset:
            result = read_records(log, offset, max_bytes, FetchIsolation.TXN_COMMITTED)
            assert result.aborted_transactions is not None
            told = {(entry.producer_id, entry.first_offset) for entry in result.aborted_transactions}
            assert told <= {(producer_id, first) for producer_id, first, _ in replay.aborted}
            aborted = sorted((first, producer_id) for producer_id, first in told)
            dropping: set[int] = set()
            before = offset
            for header, data in iter_batches(result.records):
                while aborted and aborted[0][0] <= header.base_offset:
                    dropping.add(aborted.pop(0)[1])
                offset = header.base_offset + header.last_offset_delta + 1
                assert offset <= log.last_stable_offset
                if header.is_control:
                    kind, _ = decode_end_txn_marker(data)
                    if kind is ControlRecordType.ABORT:
                        dropping.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in dropping):
                    seen += range(header.base_offset, offset)
            assert offset > before
        assert seen == sorted(kept for kept in replay.committed if kept < log.last_stable_offset)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 4)),
        st.tuples(st.just("produce"), st.integers(0, PRODUCERS - 1), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("produce"), st.integers(0, PRODUCERS - 1), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("retry"), st.integers(0, PRODUCERS - 1), st.integers(0, 4)),
        st.tuples(st.just("end"), st.integers(0, PRODUCERS - 1), st.booleans(), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, PRODUCERS - 1), st.booleans(), st.booleans()),
        st.tuples(st.just("flush")),
        st.tuples(st.just("turns"), st.integers(1, 4)),
        st.tuples(st.just("turns"), st.integers(1, 4)),
        st.tuples(st.just("stop"), st.sampled_from(["clean", "kill", "crash"]), st.integers(0, 2**32)),
    ),
    min_size=1,
    max_size=40,
)


def run_operation(logs: Logs, log: PartitionLog, model: Model, operation: tuple[object, ...]) -> None:
    match operation:
        case ("plain", int(count)):
            appended = logs.append(log, batch(count))
            model.add(log, appended.base_offset, appended.last_offset)
        case ("produce", int(producer_id), int(count), bool(transactional)):
            append_next(logs, log, model, producer_id, count, transactional)
        case ("retry", int(producer_id), int(back)):
            retry_old(logs, log, producer_id, back)
        case ("end", int(producer_id), bool(committed), bool(bump)):
            end_transaction(logs, log, model, producer_id, committed, bump)
        case ("flush",):
            logs.flush()
        case ("turns", int(count)):
            for _ in range(count):
                logs.scheduler.run_one()


def restart(logs: Logs, kind: str, seed: int) -> Logs:
    match kind:
        case "clean":
            return logs.stopped_cleanly()
        case "kill":
            return logs.killed()
        case _:
            return logs.crashed(seed)


@settings(max_examples=examples(250), deadline=None)
@given(OPERATIONS, st.sampled_from(["fsync", "os"]))
def test_recovered_log_equals_the_model_after_any_stops(operations: list[tuple[object, ...]], policy: str) -> None:
    logs = Logs(policy=policy, config=SMALL)
    log = logs.open()
    model = Model()
    for operation in [*operations, ("stop", "crash", 1), ("stop", "clean", 0)]:
        if operation[0] != "stop":
            run_operation(logs, log, model, operation)
            continue
        _, kind, seed = operation
        if kind == "clean":
            logs.flush()
        acknowledged = log.high_watermark if policy == "fsync" or kind != "crash" else 0
        check_equal(log, model)
        logs = restart(logs, str(kind), int(str(seed)))
        log = logs.open()
        assert log.offline_error is None
        if kind == "crash" or (kind == "kill" and policy == "fsync"):
            assert log.log_end_offset >= acknowledged
            model.cut(log.log_end_offset)
        assert log.high_watermark == log.log_end_offset
        check_equal(log, model)


def script(logs: Logs, log: PartitionLog) -> None:
    """Touches everything that writes: rolls, snapshots, markers, retention, a clean stop."""
    for number in range(6):
        logs.append(log, batch(2, producer_id=1, base_sequence=number * 2, transactional=True))
        logs.append(log, batch(1))
        logs.flush()
        logs.end_transaction(log, 1, committed=number % 2 == 0)
    logs.flush()
    logs.delete_records(log, 7)
    logs.append(log, batch(1))
    logs.manager.close()


def test_power_may_go_during_any_operation_of_the_disk() -> None:
    """Acknowledged records are there after a cut in any operation, also one during the recovery from the first."""
    complete = Logs(config=SMALL)
    script(complete, complete.open())
    operation_count = len(complete.disk.operations)
    assert operation_count > 40
    for cut_at in range(operation_count):
        logs = Logs(config=SMALL)
        logs.disk.operations_left = cut_at
        log = None
        try:
            log = logs.open()
            script(logs, log)
        except PowerCut:
            pass
        acknowledged = log.high_watermark if log is not None else 0
        log_start = log.log_start_offset if log is not None else 0
        for seed in range(4):
            again = logs.crashed(seed)
            recovered = recover_through_cuts(again, seed)
            assert recovered.offline_error is None, (cut_at, seed)
            assert recovered.log_end_offset >= acknowledged
            assert recovered.log_start_offset <= log_start
            replayable = [header.base_offset for header, _ in recovered.batches()]
            assert replayable == sorted(replayable)


def recover_through_cuts(logs: Logs, seed: int) -> PartitionLog:
    """Recover, and once more after a power cut in the middle of the first recovery: with the same result."""
    random = Random(seed)
    undisturbed = logs.killed().open()
    logs.disk.operations_left = random.randint(0, 6)
    with suppress(PowerCut):
        logs.open()
    recovered = logs.crashed(seed).open()
    assert recovered.log_end_offset == undisturbed.log_end_offset
    assert encode_snapshot(recovered.producer_state) == encode_snapshot(undisturbed.producer_state)
    return recovered


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
@example(1_050, True)  # a batch's length that leads beyond the segment: the next segment reveals it, by its name alone
def test_damage_below_the_durable_end_is_never_silent(seed: int, is_clean: bool) -> None:
    """After any file is changed, cut or deleted the log is as before, or offline at the latest after the check."""
    random = Random(seed)
    logs = Logs(config=SMALL)
    log, model = logs.open(), Model()
    for _ in range(30):
        run_operation(logs, log, model, random_operation(random))
    logs.flush()
    logs = logs.stopped_cleanly() if is_clean else logs.killed()
    damaged = random.choice([path for path in sorted(logs.disk.files) if path.startswith("topic-0/")])
    damage_file(logs, damaged, random)
    logs = logs.killed()
    log = logs.open()
    if log.offline_error is None and random.random() < 0.5:
        with suppress(KafkaError):
            check_equal(log, model)  # a reader may come before the check
    if any(segment.unverified_sum for segment in segments_of(log)):
        logs.check_segments()
    if log.offline_error is not None:
        assert damaged.endswith(".log")
        assert damaged in log.offline_error or "durable" in log.offline_error or not is_clean
        with pytest.raises(KafkaError) as refused:
            read_records(log, 0, 1, FetchIsolation.LOG_END)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        return
    assert log.log_end_offset == model.log_end_offset
    check_equal(log, model)


def random_operation(random: Random) -> tuple[object, ...]:
    producer_id = random.randrange(PRODUCERS)
    return random.choice(
        [
            ("plain", random.randint(1, 3)),
            ("produce", producer_id, random.randint(1, 3), True),
            ("produce", producer_id, random.randint(1, 3), False),
            ("end", producer_id, random.random() < 0.3, False),
            ("flush",),
        ]
    )


def damage_file(logs: Logs, path: str, random: Random) -> None:
    data = logs.disk.files[path].data
    kind = random.choice(["flip", "cut", "delete", "garbage"])
    if kind == "delete" or not data:
        del logs.disk.files[path]
    elif kind == "flip":
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif kind == "cut":
        del data[random.randrange(len(data)) :]
    else:
        data[:] = random.randbytes(len(data))
