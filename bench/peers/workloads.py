"""What is measured: a row each, run by librdkafka through confluent-kafka.

Owns: what the client does, and the clock around it. Does not own: rounds, statistics. Invariants
- The clock covers only what the title says: topics, clients, connections and producer ids exist before it begins.
- A record counts when it is acknowledged or read. After producing alone, the last one is read where it must be: to lose
  records is quick.
- Nothing waits for longer than the time that is left.

librdkafka's defaults apply (acks=all, lingering 5 ms for full batches), but for what a row says.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

_FILLED = "bench-filled"
_FILLED_PASSES = 5
_PRODUCERS = 16
_PARTITIONS = 10
_EACH = 100
"""Records of a transaction of several."""
_AT_ONCE: dict[str, Any] = {"linger.ms": 0}
_MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "error"}
_ONE_A_BATCH = {**_AT_ONCE, "batch.num.messages": 1, "enable.idempotence": True, "max.in.flight": 5}


class Incomplete(Exception):
    """Something was refused, lost or late; the message says what."""


@dataclass(slots=True)
class Clock:
    """What passes inside `with clock`: on the wall, in seconds of processors, in the broker's syncs."""

    broker_cpu: Callable[[], float] = float
    """Seconds so far."""
    broker_syncs: Callable[[], int] = int
    """Calls so far."""
    wall_s: float = 0.0
    broker_s: float = 0.0
    client_s: float = 0.0
    syncs: int = 0
    durations: list[float] = field(default_factory=list)
    """Seconds of each operation, where that is what counts."""

    def __enter__(self) -> None:
        self._add(-1)

    def __exit__(self, *_: object) -> None:
        self._add(1)

    def _add(self, sign: int) -> None:
        self.wall_s += sign * time.perf_counter()
        self.broker_s += sign * self.broker_cpu()
        self.client_s += sign * time.process_time()
        self.syncs += sign * self.broker_syncs()

    def time(self, operation: Callable[[], None]) -> None:
        started_s = time.perf_counter()
        operation()
        self.durations.append(time.perf_counter() - started_s)


@dataclass(frozen=True, slots=True)
class Scene:
    bootstrap: str
    count: int
    """Operations to do: records, transactions or messages, as the workload's `unit_of_work` says."""
    until_s: float
    """On the monotonic clock."""
    clock: Clock = field(default_factory=Clock)
    is_mock: bool = False
    """There is no broker but librdkafka's mock of one, in the process of the client."""
    over_tls: Mapping[str, str] = field(default_factory=dict)
    """More settings of librdkafka, if it is another listener that is measured."""

    def left_s(self) -> float:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise Incomplete("not done in time")
        return left_s

    def producer(self, settings: dict[str, Any] | None = None) -> Producer:
        queue = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_000_000}
        # Of two callbacks for each record, the client would be what is measured.
        return Producer({**self.client(), **queue, "delivery.report.only.error": True, **(settings or {})})

    def consumer(self, isolation_level: str) -> Consumer:
        return Consumer({**self.client(), "group.id": "bench", "isolation.level": isolation_level, **_MANUAL})

    def client(self) -> dict[str, Any]:
        if self.is_mock:
            return {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **self.over_tls}


Run = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Workload:
    key: str
    title: str
    unit_of_work: str
    count: int
    run: Run
    rate: tuple[str, float] | None = None
    """A unit, and how many of it an operation is; None: the time of each operation is what counts, in ms."""
    step: int = 2
    """Counts are multiples of it."""
    passes: int = 0
    """How often it reads the filled topic."""
    runs_on_mock: bool = False
    """It needs no more of a broker than librdkafka's mock can do."""
    over_tls: bool = False

    @property
    def unit(self) -> str:
        return self.rate[0] if self.rate else "ms"

    def scaled(self, divisor: int) -> int:
        """How many operations a run with fewer has."""
        return max(self.count // divisor // self.step, 1) * self.step


# -- producing


def _produce(size: int, settings: dict[str, Any] | None = None) -> Run:
    """All of them, then one wait."""

    def run(scene: Scene) -> None:
        written = Written(scene, size, settings)
        with scene.clock:
            for _ in range(scene.count):
                written.produce()
            written.flush()
        written.check()

    return run


def _produce_and_wait(scene: Scene) -> None:
    written = Written(scene, 100, _AT_ONCE)

    def produce() -> None:
        written.produce()
        written.flush()

    with scene.clock:
        for _ in range(scene.count):
            scene.clock.time(produce)
    written.check()


class Written:
    """A new topic of one partition, and its producer, which is connected: it has written a first record."""

    def __init__(self, scene: Scene, size: int, settings: dict[str, Any] | None = None, topic: str = "") -> None:
        self._scene = scene
        self._topic = topic or f"bench-{uuid.uuid4().hex[:8]}"
        self._errors: list[KafkaError] = []
        create_topic(scene, self._topic, 1)
        self._producer = scene.producer(settings)
        # No method as a callback: in a cycle the producer would stay connected until a garbage collection.
        on_delivery = partial(_keep_error, self._errors)
        self.produce = partial(self._producer.produce, self._topic, bytes(size), partition=0, on_delivery=on_delivery)
        self.produce()
        self.flush()

    def flush(self) -> None:
        if self._producer.flush(self._scene.left_s()):
            raise Incomplete(f"{len(self._producer):,} records were not delivered in time")

    def check(self) -> None:
        """Also reads the last record. To ask for the log's end is not enough: Tansu 0.6 names an earlier one."""
        if self._errors:
            raise Incomplete(f"{len(self._errors):,} records were refused: {self._errors[0].str()}")
        if self._scene.is_mock:
            return  # a consumer would have a mock of its own
        consumer = self._scene.consumer("read_uncommitted")
        consumer.assign([TopicPartition(self._topic, 0, self._scene.count)])
        (last,) = read_all(self._scene, consumer, 1)
        consumer.close()
        if last.offset() != self._scene.count:
            raise Incomplete(f"the last record has offset {last.offset():,}, not {self._scene.count:,}")


def _keep_error(errors: list[KafkaError], error: KafkaError | None, _: Message) -> None:
    if error is not None:
        errors.append(error)


# -- consuming


def _consume(isolation_level: str) -> Run:
    """The same records several times, since once takes too little time to measure. Each time with another client: one
    that has reached the end waits there for records, and goes back only after `fetch.wait.max.ms`."""

    def run(scene: Scene) -> None:
        for _ in range(_FILLED_PASSES):
            consumer = connected(scene, isolation_level)
            with scene.clock:
                read_all(scene, consumer, scene.count // _FILLED_PASSES)
            consumer.close()

    return run


def connected(scene: Scene, isolation_level: str, topic: str = _FILLED) -> Consumer:
    """It has read the first record."""
    consumer = scene.consumer(isolation_level)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read_all(scene, consumer, 1)
    return consumer


def read_all(scene: Scene, consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        for message in consumer.consume(min(count - len(found), 10_000), timeout=min(scene.left_s(), 1.0)):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            found.append(message)
    return found


# -- transactions


def _transactional(scene: Scene, name: str) -> Producer:
    producer = scene.producer({**_AT_ONCE, "transactional.id": f"bench-{name}"})
    producer.init_transactions(scene.left_s())
    return producer


def _transact(scene: Scene, producer: Producer, topic: str, partitions: Sequence[int]) -> None:
    """One record to each."""
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, bytes(100), partition=partition)
    producer.commit_transaction(scene.left_s())


def _transactions(topic: str, partitions: Sequence[int]) -> Run:
    def run(scene: Scene) -> None:
        transact = partial(_transact, scene, _transactional(scene, topic), topic, partitions)
        transact()
        with scene.clock:
            for _ in range(scene.count):
                scene.clock.time(transact)

    return run


def _sixteen_producers(scene: Scene) -> None:
    """Each in a thread of its own, with a partition of its own."""

    def work(producer: Producer, partition: int, count: int) -> None:
        for _ in range(count):
            _transact(scene, producer, "bench-sixteen", [partition])

    numbers = range(_PRODUCERS)
    with ThreadPoolExecutor(_PRODUCERS) as pool:
        producers = list(pool.map(lambda number: _transactional(scene, f"sixteen-{number}"), numbers))
        list(pool.map(work, producers, numbers, repeat(1)))
        with scene.clock:
            list(pool.map(work, producers, numbers, repeat(scene.count // _PRODUCERS)))


def _consume_process_produce(scene: Scene) -> None:
    """With an assigned partition: how a group finds its members is not part of it."""
    producer = _transactional(scene, "copied")
    _transact(scene, producer, "bench-copied", [0])
    consumer = connected(scene, "read_committed")
    with scene.clock:
        for _ in range(scene.count // _EACH):
            messages = read_all(scene, consumer, _EACH)
            producer.begin_transaction()
            for message in messages:
                producer.produce("bench-copied", message.value(), partition=0)
            next_offset = (messages[-1].offset() or 0) + 1
            offsets = [TopicPartition(_FILLED, 0, next_offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), scene.left_s())
            producer.commit_transaction(scene.left_s())
    consumer.close()


# -- what must be there before


_TOPICS = (("bench-one", 1), ("bench-several", _PARTITIONS), ("bench-sixteen", _PRODUCERS), ("bench-copied", 1))


def prepare(scene: Scene) -> None:
    """The topics, one of them filled with `scene.count` records of 1 kB, and one more, as consuming needs it."""
    for topic, partitions in _TOPICS:
        create_topic(scene, topic, partitions)
    filled = Written(scene, 1000, topic=_FILLED)
    for _ in range(scene.count):
        filled.produce()
    filled.flush()
    filled.check()


def create_topic(scene: Scene, topic: str, partitions: int) -> None:
    if scene.is_mock:
        return  # it has every topic, with four partitions
    admin = AdminClient(scene.client())
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(scene.left_s())


def filled_count(workloads: Sequence["Workload"], scale: int) -> int:
    """Records that `prepare` must write for these."""
    return max((each.scaled(scale) // each.passes for each in workloads if each.passes), default=0)


def _rows() -> Iterator[Workload]:
    read = partial(
        Workload, unit_of_work="record", count=500_000, rate=("MB/s", 1e-3), step=_FILLED_PASSES, passes=_FILLED_PASSES
    )
    write = partial(Workload, unit_of_work="record", runs_on_mock=True)
    transact = partial(Workload, unit_of_work="transaction")
    yield write("produce-1k", "produce 1 kB, batched", count=150_000, run=_produce(1000), rate=("MB/s", 1e-3))
    yield write("produce-100", "produce 100 B, batched", count=500_000, run=_produce(100), rate=("k/s", 1e-3))
    title = "one record a batch, idempotent, 5 in flight"
    yield write("one-a-batch", title, count=20_000, run=_produce(100, _ONE_A_BATCH), rate=("k/s", 1e-3))
    yield write("produce-wait", "produce 100 B and wait", count=3_000, run=_produce_and_wait)
    yield read("committed", "consume 1 kB, read_committed", run=_consume("read_committed"))
    yield read("uncommitted", "consume 1 kB, read_uncommitted", run=_consume("read_uncommitted"))
    one = _transactions("bench-one", [0])
    yield transact("transaction", "transaction of one record", count=400, run=one, runs_on_mock=True)
    partitions = [number % _PARTITIONS for number in range(_EACH)]
    title = f"transaction of {_EACH} records over {_PARTITIONS} partitions"
    yield transact("transaction-10", title, count=200, run=_transactions("bench-several", partitions))
    title, rate = f"{_PRODUCERS} producers, one-record transactions", ("txn/s", 1.0)
    yield transact("sixteen", title, count=1_600, run=_sixteen_producers, rate=rate, step=_PRODUCERS)
    title, rate = f"consume-process-produce, {_EACH} a transaction", ("messages/s", 1.0)
    yield Workload("copy", title, "message", 10_000, _consume_process_produce, rate, step=_EACH, passes=1)


WORKLOADS = tuple(_rows())


def _tls_rows() -> Iterator[Workload]:
    for workload in WORKLOADS:
        if workload.key in ("produce-1k", "committed", "transaction"):
            yield replace(workload, runs_on_mock=False)
            key, title = f"{workload.key}-tls", f"{workload.title}, TLS"
            yield replace(workload, key=key, title=title, runs_on_mock=False, over_tls=True)


TLS_WORKLOADS = tuple(_tls_rows())
"""Each with TLS and without, in the same run."""
