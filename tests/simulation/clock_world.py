"""Everything that ends by itself, on a machine whose wall clock is set back and forward as it lives.

Owns: the clock, what is begun, and an independent account of when each thing may be gone and when it must. What is
measured in this run (producer ids, open transactions) may not care for the wall clock. What is measured from a stored
time (transactional ids, offsets, records) may go once the wall clock has shown its time, and must go once it has shown
so for an interval.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.record import Record, decode_records
from tests.clients.group_members import commit
from tests.clients.producer import TIMEOUT_MS, TOPIC, Producer, log_of
from tests.fakes.broker import VirtualBroker
from tests.fakes.budget import names_its_seed
from tests.fakes.logs import read_records, segments_of
from tests.fakes.virtual_time import VirtualTime, VirtualTimer
from tests.simulation.log_auditor import AuditError

START_MS = 1_700_000_000_000
SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000
SIZES_MS = (SECOND_MS, 30 * SECOND_MS, HOUR_MS, DAY_MS, 30 * DAY_MS)
JUMPS_MS = (*SIZES_MS, *(-size for size in SIZES_MS), -100 * 365 * DAY_MS)
"""The last one is to before 1970."""
KEPT_MS = 120_000
"""Ids, offsets, records and producers alike."""
INTERVAL_MS = 10_000
PRODUCER_INTERVAL_MS = 600_000
TURN_MS = 1_000
SLACK_MS = 3 * TURN_MS
DATA, COMPACTED = 0, 1
SETTINGS = (
    f"producer.id.expiration.ms={KEPT_MS}",
    f"transactional.id.expiration.ms={KEPT_MS}",
    f"transaction.remove.expired.transaction.cleanup.interval.ms={INTERVAL_MS}",
    f"offsets.retention.minutes={KEPT_MS // 60_000}",
    f"offsets.retention.check.interval.ms={INTERVAL_MS}",
    f"log.retention.check.interval.ms={INTERVAL_MS}",
    f"log.cleaner.backoff.ms={INTERVAL_MS}",
    "transaction.state.log.num.partitions=2",
    "offsets.topic.num.partitions=2",
)


class StrictTime(VirtualTime):
    def call_later(self, delay_ms: float, function: Callable[[], None]) -> VirtualTimer:
        if delay_ms < 0:
            raise AuditError(f"a timer is set to go off {-delay_ms} ms ago")
        return super().call_later(delay_ms, function)


@dataclass
class Kept:
    """Something that ends some time after a stored time."""

    stored_ms: int
    may_go: bool = False
    """The wall clock has shown the end since."""
    overdue_since_ms: int | None = None
    """Since when, in this run, it has shown nothing but times after the end."""


@dataclass
class Opened:
    """An open transaction: the wall clock's time of its start, and when it ends in this run."""

    start_ms: int
    due_ms: int


class ClockWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.broker = VirtualBroker(*SETTINGS, time=StrictTime(START_MS), seed=seed)
        topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        self.broker.ask(CreateTopicsRequest(topics=[topic]), 4)
        for kind in (0, 1):
            self.broker.ask(FindCoordinatorRequest(key="any", key_type=kind), 2)
        self._configure()
        self._kept: dict[str, Kept] = {}
        self._seen_ms: dict[int, int] = {}
        """When each producer id was last used in this run."""
        self._sequences: Counter[int] = Counter()
        """The next sequence of each producer."""
        self._forgotten: list[int] = []
        self._open: dict[str, Opened] = {}
        self._compactable_since_ms: int | None = None
        self.counts: Counter[str] = Counter()

    def _configure(self) -> None:
        """A segment for each batch."""
        for partition, policy in ((DATA, "delete"), (COMPACTED, "compact")):
            log = self._log(partition)
            log.config = replace(
                log.config,
                cleanup_policy=policy,
                retention_ms=KEPT_MS,
                segment_bytes=100,
                min_cleanable_dirty_ratio=0.0,
                producer_id_expiration_ms=KEPT_MS,
            )

    def _log(self, partition: int) -> PartitionLog:
        return log_of(self.broker, partition)

    @property
    def _wall_ms(self) -> int:
        return self.broker.time.wall_ms()

    @property
    def _now_ms(self) -> int:
        return self.broker.time.monotonic_ms()

    # --- a life -------------------------------------------------------------------------------------------------------

    @names_its_seed
    def run(self, turns: int) -> Counter[str]:
        doings = (self._write, self._write, self._compact, self._commit, self._init, self._begin)
        for _ in range(turns):
            for _ in range(self.random.choice([0, 0, 1, 2])):
                self.random.choice(doings)()
                self._audit()
            if self.random.random() < 0.05:
                self._jump()
            if self.random.random() < 0.006:
                self._restart()
            # Sometimes so long that a few things end.
            for _ in range(self.random.choice([1, 1, 1, 1, 15])):
                self._pass()
        return self.counts

    def _pass(self) -> None:
        self.broker.let_pass(TURN_MS)
        self._look_at_the_clock()
        broker = self.broker.broker
        broker.logs.step()
        broker.transactions.step()
        broker.groups.step()
        self.broker.time.settle()
        self._audit()

    def _jump(self) -> None:
        self.counts["jumps"] += 1
        back_to_true = self.random.random() < 0.3
        offset_ms = START_MS if back_to_true else self.broker.time.wall_offset_ms + self.random.choice(JUMPS_MS)
        self.broker.time.wall_offset_ms = max(-self._now_ms, offset_ms)
        self._look_at_the_clock()

    def _restart(self) -> None:
        self.counts["restarts"] += 1
        jump_ms = self.random.choice([0, *JUMPS_MS])
        time = StrictTime(max(0, self._wall_ms + jump_ms))
        disk = self.broker.disk.kill()
        self.broker = VirtualBroker(*SETTINGS, disk=disk, time=time, seed=self.random.randrange(10**6))
        self._configure()
        self._compactable_since_ms = None
        self._seen_ms = dict.fromkeys(self._seen_ms, 0)
        for opened in self._open.values():
            opened.due_ms = max(0, TIMEOUT_MS - max(0, self._wall_ms - opened.start_ms))
        for each in self._kept.values():
            each.overdue_since_ms = None
        self._look_at_the_clock()
        self._audit()

    # --- what is begun ------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        # Each is silent after a while, and some return with their next sequence once they are forgotten.
        producer_id = 100_000 + self.counts["writes"] // 10 + self.random.randint(0, 2)
        self.counts["writes"] += 1
        if self._forgotten and self.random.random() < 0.3:
            producer_id = self.random.choice(self._forgotten)
            self._forgotten.remove(producer_id)
            self.counts["returns"] += 1
        timestamp = max(0, self._wall_ms + self.random.choice([0, 0, -DAY_MS, HOUR_MS // 2]))
        batch = encode_batch(
            [Record(0, timestamp, None, b"value")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self._sequences[producer_id],
        )
        data = PartitionProduceData(index=DATA, records=memoryview(batch))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        version = self.random.randint(3, 12)
        answer = self.broker.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), version)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            is_known = producer_id in self._seen_ms
            raise AuditError(f"Produce {version} of a producer that is {is_known=} is refused: {ErrorCode(code).name}")
        self._sequences[producer_id] += 1
        self._seen_ms[producer_id] = self._now_ms

    def _compact(self) -> None:
        key = b"%d" % self.random.randint(0, 2)
        batch = encode_batch([Record(0, self._wall_ms, key, b"value")])
        self._log(COMPACTED).append(memoryview(batch), wall_ms=self.broker.time.wall_ms())
        self.broker.time.settle()
        self._compactable_since_ms = self._now_ms

    def _commit(self) -> None:
        commit(self.broker, 1, group_id=f"group-{self.random.randint(0, 4)}")

    def _init(self) -> None:
        transactional_id = f"idle-{self.random.randint(0, 4)}"
        Producer(self.broker, transactional_id).init()

    def _begin(self) -> None:
        transactional_id = f"open-{self.random.randint(0, 4)}"
        if transactional_id not in self._open:
            Producer(self.broker, transactional_id).init().add(DATA)
            start_ms = next(
                status.metadata.start_timestamp_ms
                for status in self.broker.broker.transactions.current()
                if status.metadata.transactional_id == transactional_id
            )
            if start_ms != self._wall_ms:
                raise AuditError(f"a transaction that begins at {self._wall_ms} is logged with {start_ms}")
            self._open[transactional_id] = Opened(start_ms, self._now_ms + TIMEOUT_MS)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _look_at_the_clock(self) -> None:
        for each in self._kept.values():
            if self._wall_ms < each.stored_ms + KEPT_MS:
                each.overdue_since_ms = None
                continue
            each.may_go = True
            if each.overdue_since_ms is None:
                each.overdue_since_ms = self._now_ms

    def _audit(self) -> None:
        self._audit_transactions()
        self._audit_producers()
        self._audit_kept(dict(self._stored()))
        if self._compactable_since_ms is not None:
            self._audit_compaction(self._compactable_since_ms)

    def _audit_transactions(self) -> None:
        for status in self.broker.broker.transactions.current():
            name, is_open = status.metadata.transactional_id, status.metadata.state is TransactionState.ONGOING
            opened = self._open.get(name)
            if opened is None:
                continue
            if is_open and self._now_ms > opened.due_ms:
                raise AuditError(f"{name} is open {self._now_ms - opened.due_ms} ms after its timeout")
            if not is_open and self._now_ms < opened.due_ms:
                raise AuditError(f"{name} was ended {opened.due_ms - self._now_ms} ms before its timeout")
            if not is_open:
                self.counts["timeouts"] += 1
                del self._open[name]

    def _audit_producers(self) -> None:
        known = {state.producer_id for state in self._log(DATA).producer_state.producers()}
        for producer_id, seen_ms in list(self._seen_ms.items()):
            silent_ms = self._now_ms - seen_ms
            if producer_id not in known:
                if silent_ms < KEPT_MS:
                    raise AuditError(f"producer {producer_id} is forgotten after {silent_ms} ms of silence")
                self.counts["producers"] += 1
                self._forgotten.append(producer_id)
                del self._seen_ms[producer_id]
            elif silent_ms > KEPT_MS + PRODUCER_INTERVAL_MS + SLACK_MS:
                raise AuditError(f"producer {producer_id} is known after {silent_ms} ms of silence")

    def _stored(self) -> Iterator[tuple[str, int]]:
        """All that is there now and ends by a stored time, and that time."""
        broker = self.broker.broker
        for status in broker.transactions.current():
            if status.metadata.transactional_id not in self._open:
                yield f"id {status.metadata.transactional_id}", status.metadata.last_update_timestamp_ms
        for life in broker.groups._runtime.shards():
            for group_id in life.shard.group_ids():
                for committed in life.shard.offsets(group_id).values():
                    yield f"offset {group_id}", committed.commit_timestamp_ms
        # A segment goes after all before it, the active one too; an empty one has nothing that could.
        newest_ms = 0
        for segment in segments_of(self._log(DATA)):
            if not segment.size_bytes:
                continue
            newest_ms = max(newest_ms, segment.max_timestamp)
            yield f"segment {segment.base_offset}", newest_ms

    def _audit_kept(self, stored: dict[str, int]) -> None:
        for name, stored_ms in stored.items():
            each = self._kept.get(name)
            is_segment = name.startswith("segment")
            if each is None or (each.stored_ms != stored_ms and not is_segment):
                self._kept[name] = each = Kept(stored_ms)
                self._look_at_the_clock()
            elif is_segment:
                each.stored_ms = stored_ms
            since_ms = each.overdue_since_ms
            if since_ms is not None and self._now_ms - since_ms > INTERVAL_MS + SLACK_MS:
                raise AuditError(f"{name} is there {self._now_ms - since_ms} ms after its time")
        for name in [name for name in self._kept if name not in stored]:
            if not self._kept[name].may_go and name.removeprefix("id ") not in self._open:
                raise AuditError(f"{name} went before its time")
            self.counts[name.partition(" ")[0]] += 1
            del self._kept[name]

    def _audit_compaction(self, since_ms: int) -> None:
        # A round that is running may have to end before the one that sees the last record.
        if self._now_ms - since_ms <= 2 * INTERVAL_MS + SLACK_MS:
            return
        log = self._log(COMPACTED)
        active_offset = list(segments_of(log))[-1].base_offset
        data = read_records(log, log.log_start_offset, 2**30, FetchIsolation.LOG_END).records
        records = [record for _, batch in iter_batches(memoryview(data)) for record in decode_records(batch)]
        keys = Counter(record.key for record in records if record.offset < active_offset)
        if any(count > 1 for count in keys.values()):
            raise AuditError(f"not compacted {self._now_ms - since_ms} ms after the last record: {keys}")
        self.counts["compactions"] += 1
        self._compactable_since_ms = None
