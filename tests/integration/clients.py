"""What a scenario asks of a Kafka client, and the two clients that do it: the bundled one and librdkafka.

Owns: one class for each client with the same methods, blocking, of values that JSON can carry. Does not own: processes
(`worker`), scenarios. A method that fails raises `Refused` with a kind that means the same for both clients.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

SESSION_TIMEOUT_MS = 3_000
"""A killed member is missed after so long; docker-compose.yml allows it."""
PATIENCE_S = 60
"""The limit for an operation that outlives a restart of the broker, on a busy machine."""
OPEN_S = 60
CONNECT_TIMEOUT_MS = 3_000
"""A restarted container may have another address, and nothing answers at the one that a client has just looked up."""


class Refused(Exception):
    """`kind`: fenced, abortable (the transaction has to be aborted), retriable (the outcome is open), or other."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Client(Protocol):
    """A client with at most one producer and one group membership at a time; `close` ends both."""

    def open_producer(self, transactional_id: str, timeout_ms: int = 60_000) -> None:
        """Fences the previous instance of the id."""

    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, *values: str) -> None:
        """Returns when all are written."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def read(self, topic: str, isolation: str) -> list[str]:
        """All values that a reader of that isolation sees, up to the end of each partition, sorted."""

    def join(self, group: str, topic: str) -> None: ...
    def share(self) -> list[int]:
        """The partitions of this member after one more poll, in which it may take part in a rebalance."""

    def take(self, count: int) -> list[str]:
        """The next so many values of the group, in the order in which they come."""

    def send_positions(self) -> None:
        """Add the positions of what was taken to the open transaction."""

    def leave(self) -> None: ...
    def close(self) -> None: ...


class Bundled:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = None
        self._transaction: Any = None
        self._member: Any = None
        self._taken: dict[Any, int] = {}

    def open_producer(self, transactional_id: str, timeout_ms: int = 60_000, two_phase: bool = False) -> None:
        self._open(transactional_id, timeout_ms, two_phase)
        self._producer.init_transactions()

    def _open(self, transactional_id: str, timeout_ms: int, two_phase: bool) -> None:
        from oncelog.sync import Producer

        self._producer = Producer(
            self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            transaction_two_phase_commit_enable=two_phase,
            bootstrap_timeout_ms=OPEN_S * 1000,
            max_block_ms=PATIENCE_S * 1000,
            delivery_timeout_ms=min(timeout_ms, PATIENCE_S * 1000),
            request_timeout_ms=CONNECT_TIMEOUT_MS,
        )
        self._producer.__enter__()

    def begin(self) -> None:
        self._transaction = self._producer.transaction()
        self._transaction.__enter__()

    def send(self, topic: str, partition: int, *values: str) -> None:
        target = self._transaction or self._producer
        for delivery in [target.send_soon(topic, value.encode(), partition=partition) for value in values]:
            delivery.result()

    def commit(self) -> None:
        transaction, self._transaction = self._transaction, None
        transaction.commit()

    def abort(self) -> None:
        transaction, self._transaction = self._transaction, None
        transaction.abort()

    def prepare(self) -> str:
        """The state of the prepared transaction, for `complete`."""
        return str(self._transaction.prepare())

    def complete(self, transactional_id: str, prepared: str) -> str:
        """Complete the transaction that an earlier instance has prepared; return its outcome."""
        self._open(transactional_id, 60_000, two_phase=True)
        return str(self._producer.complete(prepared))

    def read(self, topic: str, isolation: str) -> list[str]:
        from oncelog.sync import Consumer

        with Consumer(
            bootstrap_servers=self._bootstrap,
            isolation_level=isolation,
            bootstrap_timeout_ms=OPEN_S * 1000,
            request_timeout_ms=CONNECT_TIMEOUT_MS,
        ) as consumer:
            places = consumer.partitions_for(topic)
            consumer.assign(places)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(places)
            values: list[str] = []
            while any(consumer.position(place) < ends[place] for place in places):
                values += [(record.value or b"").decode() for record in consumer.poll(1_000)]
        return sorted(values)

    def join(self, group: str, topic: str) -> None:
        from oncelog.sync import Consumer

        self._member = Consumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=SESSION_TIMEOUT_MS // 6,
            request_timeout_ms=CONNECT_TIMEOUT_MS,
            bootstrap_timeout_ms=OPEN_S * 1000,
        )
        self._member.__enter__()
        self._taken = {}

    def share(self) -> list[int]:
        self._member.poll(200)
        return sorted(place.partition for place in self._member.assignment())

    def take(self, count: int) -> list[str]:
        values: list[str] = []
        while len(values) < count:
            for record in self._member.poll(1_000, count - len(values)):
                values.append(record.value.decode())
                self._taken[record.topic_partition] = record.offset + 1
        return values

    def send_positions(self) -> None:
        self._transaction.send_offsets(self._taken, group=self._member)

    def leave(self) -> None:
        self._member.close()

    def close(self) -> None:
        for each in (self._producer, self._member):
            if each is not None:
                each.close(1_000)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        from oncelog.client import AbortableError, KafkaError, ProducerFenced, RetriableError

        try:
            yield
        except ProducerFenced as error:
            raise Refused("fenced", str(error)) from error
        except AbortableError as error:
            raise Refused("abortable", str(error)) from error
        except RetriableError as error:
            raise Refused("retriable", str(error)) from error
        except KafkaError as error:
            raise Refused("other", str(error)) from error


class Librdkafka:
    def __init__(self, bootstrap: str) -> None:
        self._servers = {
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": 10_000,
            "socket.connection.setup.timeout.ms": CONNECT_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 500,
        }
        self._producer: Any = None
        self._member: Any = None
        self._taken: dict[tuple[str, int], int] = {}

    def open_producer(self, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from confluent_kafka import Producer

        transactions = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        # Not above the transaction's timeout.
        times = {"message.timeout.ms": min(timeout_ms, 60_000), "socket.timeout.ms": min(timeout_ms, 10_000)}
        self._producer = Producer({**self._servers, **transactions, **times})
        self._producer.init_transactions(OPEN_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, *values: str) -> None:
        from confluent_kafka import KafkaException

        errors: list[Any] = []
        for value in values:
            self._producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error) if error else None
            )
        self._producer.flush(PATIENCE_S)
        if errors:
            raise KafkaException(errors[0])

    def commit(self) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.commit_transaction(PATIENCE_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def read(self, topic: str, isolation: str) -> list[str]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"group.id": str(uuid.uuid4()), "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer({**self._servers, **settings, "enable.auto.commit": False})
        left = set(consumer.list_topics(topic, OPEN_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        values: list[str] = []
        while left:
            message = consumer.poll(PATIENCE_S)
            if message is None:
                raise Refused("retriable", f"neither a record nor the end of {left} within {PATIENCE_S} s")
            error = message.error()
            if error is None:
                values.append((message.value() or b"").decode())
            elif error.name() == "_PARTITION_EOF":
                left.discard(message.partition())
        consumer.close()
        return sorted(values)

    def join(self, group: str, topic: str) -> None:
        from confluent_kafka import Consumer

        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        times = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 6}
        self._member = Consumer({**self._servers, **settings, **times})
        self._member.subscribe([topic])
        self._taken = {}

    def share(self) -> list[int]:
        message = self._member.poll(0.2)
        if message is not None and message.error() is None:
            raise Refused("other", "the member of a rebalance has nothing to read")
        return sorted(place.partition for place in self._member.assignment())

    def take(self, count: int) -> list[str]:
        values: list[str] = []
        while len(values) < count:
            message = self._member.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
                self._taken[message.topic(), message.partition()] = message.offset() + 1
        return values

    def send_positions(self) -> None:
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._taken.items()]
        self._producer.send_offsets_to_transaction(places, self._member.consumer_group_metadata(), PATIENCE_S)

    def leave(self) -> None:
        self._member.close()

    def close(self) -> None:
        self._producer = self._member = None

    @contextmanager
    def refusals(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as exception:
            error = exception.args[0]
            fenced = error.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
            kinds = {
                "fenced": fenced,
                "abortable": error.txn_requires_abort(),
                "retriable": error.retriable(),
            }
            raise Refused(next((kind for kind, is_so in kinds.items() if is_so), "other"), str(error)) from exception


KINDS: dict[str, Callable[[str], Bundled | Librdkafka]] = {"bundled": Bundled, "librdkafka": Librdkafka}
