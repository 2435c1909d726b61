"""A transaction coordinator on its own: virtual time, flushes that are held back, markers that wait for answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.transaction.dependencies import TransactionDependencies, TransactionLimits
from oncelog.broker.coordinator.transaction.metadata import ProducerIdAndEpoch, TopicPartition, TransactionMetadata
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife
from oncelog.broker.log.values import EndMarker
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import TRANSACTION_STATE
from tests.fakes.coordinator_log import MemoryCoordinatorLog, MemoryTopic, no_failure
from tests.fakes.virtual_time import VirtualTime

ID = "id"
NODE_ID = 1
TIMEOUT_MS = 10_000
EXPIRATION_MS, EXPIRY_INTERVAL_MS = 3_600_000, 60_000
P0, P1 = ("topic", 0), ("topic", 1)


@dataclass
class SentMarker:
    marker: EndMarker
    partitions: Sequence[TopicPartition]
    answer: Completion[list[ErrorCode]]


class HeldMarkers:
    """Takes markers, and answers by itself, or when the test lets it if it `holds`. They are sent one by one, as to
    another node, unless `appends`.
    """

    def __init__(self) -> None:
        self.sent: list[SentMarker] = []
        self.holds = False
        self.appends = False
        self.errors: list[ErrorCode] = []
        """The errors of the partitions of the next one that is appended; NONE for all if there are none."""

    def append(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], prepared: Completion[Any]
    ) -> list[ErrorCode] | None:
        assert node_id == NODE_ID
        if not self.appends:
            return None
        self.sent.append(SentMarker(marker, partitions, Completion()))
        errors, self.errors = self.errors or [ErrorCode.NONE] * len(partitions), []
        self.sent[-1].answer.complete(errors)
        return errors

    def send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> Completion[list[ErrorCode]]:
        assert node_id == NODE_ID
        self.sent.append(SentMarker(marker, partitions, Completion()))
        if not self.holds:
            self.release()
        return self.sent[-1].answer

    def without_response(self, producer_id: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return list(partitions)

    @property
    def waiting(self) -> list[SentMarker]:
        return [sent for sent in self.sent if not sent.answer.done]

    def release(self, *errors: ErrorCode) -> None:
        """Answer the oldest one: with these errors, or with NONE for each partition."""
        sent = self.waiting[0]
        sent.answer.complete(list(errors) or [ErrorCode.NONE] * len(sent.partitions))


class CountingIds:
    """Stands for ProducerIdManager: 1000, 1001, … at once, or when released."""

    def __init__(self) -> None:
        self.next = 1_000
        self.holds = False
        self.waiting: list[Completion[int]] = []

    def next_id(self) -> Completion[int]:
        answer: Completion[int] = Completion()
        self.waiting.append(answer)
        if not self.holds:
            self.release()
        return answer

    def is_from_before(self, producer_id: int) -> bool:
        return False

    def skip_to(self, producer_id: int) -> None:
        self.next = max(self.next, producer_id)

    def release(self) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            self.next += 1
            answer.complete(self.next - 1)


class Transitions:
    def __init__(self) -> None:
        self.states: list[str] = []
        self.opened = 0
        self.fenced = 0

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        self.opened += opens
        self.states.append(metadata.state.kafka_name)

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None:
        self.fenced += 1


class Coordinator:
    """A coordinator to send requests to; they return a pair or an error code, None while there is no answer."""

    def __init__(
        self,
        *,
        level: int = 1,
        topic: MemoryTopic | None = None,
        time: VirtualTime | None = None,
        ids: CountingIds | None = None,
    ) -> None:
        self.level = level
        self.topic = topic or MemoryTopic()
        self.time = time or VirtualTime()
        self.markers = HeldMarkers()
        self.ids = ids or CountingIds()
        self.transitions = Transitions()
        self.gone: set[TopicPartition] = set()
        self.rounds_are_whole = True
        self.has_lost_ahead = False
        self.loading = CoordinatorLoading(self.time)
        self.runtime: CoordinatorRuntime[TransactionShardLife] = CoordinatorRuntime(
            TRANSACTION_STATE,
            self.topic,
            self._make_shard,
            self.time,
            self.loading,
            lambda topic, partition: 0,
            no_failure,
        )
        self.core = TransactionCoordinator(
            self.runtime,
            self.ids,
            TransactionDependencies(
                self.markers,
                lambda topic, partition: None if (topic, partition) in self.gone else NODE_ID,
                self.time,
                self.time,
                TransactionLimits(900_000, EXPIRATION_MS, EXPIRY_INTERVAL_MS, two_phase_commit=True),
                self.transitions,
                lambda: self.level,
                lambda: self.rounds_are_whole,
                lambda _: self.rounds_are_whole,
                lambda: self.has_lost_ahead,
            ),
        )

    def _make_shard(self, partition: int, epoch: int) -> TransactionShardLife:
        return self.core.make_shard(partition, epoch)

    @property
    def log(self) -> MemoryCoordinatorLog:
        """The log of the first partition, in most tests the only one."""
        return self.topic.logs[0]

    def start(self) -> None:
        """Replay what is in the log, as a broker does before it listens."""
        self.runtime.gain_all()
        self.loading.begin()

    def init(
        self, pair: ProducerIdAndEpoch | None = None, *, transactional_id: str = ID, timeout_ms: int = TIMEOUT_MS
    ) -> "Asked":
        producer_id, producer_epoch = (pair.producer_id, pair.producer_epoch) if pair else (-1, -1)
        return Asked(self.core.init_producer_id(transactional_id, timeout_ms, producer_id, producer_epoch))

    def take_over(self) -> "Asked":
        """A new instance that keeps what is open (KIP-939)."""
        initialized = self.core.init_two_phase(ID, TIMEOUT_MS, -1, -1, enables=False, keeps_prepared=True)
        return Asked(initialized.map(lambda answer: answer.producer))

    def add(
        self,
        pair: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        version: int = 0,
        transactional_id: str = ID,
    ) -> "Asked":
        return Asked(
            self.core.add_partitions(
                transactional_id, pair.producer_id, pair.producer_epoch, partitions, transaction_version=version
            )
        )

    def end(self, pair: ProducerIdAndEpoch, commit: bool, *, version: int = 0, transactional_id: str = ID) -> "Asked":
        return Asked(
            self.core.end_transaction(
                transactional_id, pair.producer_id, pair.producer_epoch, commit, transaction_version=version
            )
        )

    def verify(self, pair: ProducerIdAndEpoch, *partitions: TopicPartition, is_other_node: bool = False) -> ErrorCode:
        return self.core.verify_partitions(
            ID, pair.producer_id, pair.producer_epoch, partitions, is_other_node=is_other_node
        )

    def begun(self, *partitions: TopicPartition, version: int = 0) -> ProducerIdAndEpoch:
        """A producer with an open transaction on these partitions."""
        pair = self.init().pair
        assert self.add(pair, *(partitions or (P0, P1)), version=version).error is ErrorCode.NONE
        return pair

    @property
    def known(self) -> TransactionMetadata:
        metadata = self.runtime.shard(ID).get(ID)
        assert metadata is not None
        return metadata

    def logged(self) -> list[str]:
        """The states that were logged of the one id, in order."""
        values = [from_record(record)[1] for record in self.log.records]
        return ["Dead" if value is None else value.state.kafka_name for value in values]

    def crashed(self, record_count: int | None = None) -> MemoryTopic:
        """The topic after a crash: as many records, at least the durable ones, by default no more."""
        return MemoryTopic(*(log.crashed(record_count) for log in self.topic.logs))

    def restarted(self, record_count: int | None = None, *, level: int | None = None) -> "Coordinator":
        """The next start on what a crash has left."""
        survivor = Coordinator(
            level=self.level if level is None else level,
            topic=self.crashed(record_count),
            time=VirtualTime(self.time.wall_ms()),
            ids=self.ids,
        )
        survivor.start()
        survivor.time.settle()
        return survivor


class Asked:
    """A request to the coordinator, and its answer once there is one."""

    def __init__(self, completion: Completion[ProducerIdAndEpoch]) -> None:
        self._completion = completion

    @property
    def is_answered(self) -> bool:
        return self._completion.done

    @property
    def error(self) -> ErrorCode:
        assert self._completion.done, "there is no answer yet"
        error = self._completion.error
        if error is None:
            return ErrorCode.NONE
        assert isinstance(error, KafkaError)
        return error.code

    @property
    def pair(self) -> ProducerIdAndEpoch:
        return self._completion.result()


def outcomes(markers: Iterable[SentMarker]) -> set[bool]:
    return {sent.marker.committed for sent in markers}
