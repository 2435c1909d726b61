"""The program of librdkafka's client: python -m tests.postgres.proof.librdkafka BOOTSTRAP TOPIC SEED REST_MS"""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.postgres.proof.lines import (
    ABORTED,
    COMMITTED,
    COPIES,
    PARTITIONS,
    UNKNOWN,
    Lines,
    end_with_any_thread,
    run_threads,
)
from tests.support.patience import PATIENCE_S

_TIMEOUT_MS = 60_000
_LOOK_S = 0.1


@dataclass
class Program:
    bootstrap: str
    topic: str
    seed: str
    rest_ms: str
    lines: Lines = field(default_factory=Lines)
    stops: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        run_threads(self.stops, self.over, self.lines, self._write, (self._copy, self._follow))

    def _connection(self) -> dict[str, Any]:
        # librdkafka 2.16 waits for brokers that it has removed itself (docs/clients/client-notes.md).
        settings = {"metadata.recovery.strategy": "none", "socket.timeout.ms": 5_000, "log_level": 0}
        backoff = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 500}
        return {"bootstrap.servers": self.bootstrap, **settings, **backoff}

    def _producer(self, name: str) -> Producer:
        settings = {"transactional.id": f"{self.topic}-{name}", "transaction.timeout.ms": _TIMEOUT_MS, "linger.ms": 1}
        producer = Producer({**self._connection(), **settings})
        self._again(lambda: producer.init_transactions(PATIENCE_S))
        return producer

    def _consumer(self, **settings: Any) -> Consumer:
        fixed = {"isolation.level": "read_committed", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        return Consumer({**self._connection(), "group.id": self.topic, **fixed, **wanted})

    def _again(self, function: Callable[[], object]) -> None:
        """Until it is done, or is refused."""
        while True:
            try:
                function()
                return
            except KafkaException as raised:
                if not raised.args[0].retriable():
                    raise
                self._report(raised.args[0])

    def _report(self, error: KafkaError) -> None:
        self.lines.say("error", error.name())

    # --- transactions -------------------------------------------------------------------------------------------------

    def _write(self, number: int) -> None:
        random, life = Random(f"{self.seed} {number}"), 0
        while not self.stops.is_set():
            life += 1
            try:
                producer = self._producer(str(number))
            except KafkaException as raised:
                self._report(raised.args[0])
                continue
            transaction, goes_on = 0, True
            while goes_on and not self.stops.wait(random.uniform(0, int(self.rest_ms) / 1000)):
                transaction += 1
                goes_on = self._transact(producer, f"{number}.{life}.{transaction}", commits=random.random() < 0.85)

    def _transact(self, producer: Producer, name: str, *, commits: bool) -> bool:
        """Whether this producer can go on; otherwise the next one fences it."""
        begun_s, asked = time.monotonic(), False
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(self.topic, name.encode(), partition=partition)
            if commits:
                producer.flush(PATIENCE_S)
                asked = True
                self._again(lambda: producer.commit_transaction(PATIENCE_S))
            else:
                producer.flush(PATIENCE_S)
                self._again(lambda: producer.abort_transaction(PATIENCE_S))
            self.lines.end(name, COMMITTED if commits else ABORTED, begun_s)
        except KafkaException as raised:
            goes_on = self._gives_up(producer, raised)
            self.lines.end(name, UNKNOWN if asked and not goes_on else ABORTED, begun_s)
            return goes_on
        return True

    def _gives_up(self, producer: Producer, raised: KafkaException) -> bool:
        """Whether the transaction is aborted."""
        self._report(raised.args[0])
        if not raised.args[0].txn_requires_abort():
            return False
        try:
            self._again(lambda: producer.abort_transaction(PATIENCE_S))
        except KafkaException as refused:
            self._report(refused.args[0])
            return False
        return True

    # --- read, process, write -----------------------------------------------------------------------------------------

    def _copy(self) -> None:
        while not self.over.is_set():
            consumer = self._consumer(auto_offset_reset="earliest", session_timeout_ms=10_000)
            consumer.subscribe([self.topic])
            try:
                producer = self._producer("copier")
                while not self.over.is_set():
                    self._copy_some(consumer, producer)
            except KafkaException as raised:
                self._report(raised.args[0])  # both begin anew, where the group has committed
            finally:
                consumer.close()

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        messages = [self._checked(each) for each in consumer.consume(100, _LOOK_S)]
        if not messages:
            return
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            partition = int(message.partition() or 0)
            value = b"%b %d" % (message.value() or b"", partition)
            producer.produce(self.topic + COPIES, value, partition=partition)
            ends[partition] = int(message.offset() or 0) + 1
        offsets = [TopicPartition(self.topic, partition, end) for partition, end in ends.items()]
        metadata = consumer.consumer_group_metadata()
        self._again(lambda: producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S))
        self._again(lambda: producer.commit_transaction(PATIENCE_S))

    def _checked(self, message: Message) -> Message:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        return message

    # --- a reader -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="error", group_id=f"{self.topic}-follower")
        beginning = [TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)]
        consumer.assign(beginning)
        while not self.over.is_set():
            for message in consumer.consume(100, _LOOK_S):
                error = message.error()
                if error is None:
                    self.lines.say("read", message.partition(), message.offset(), (message.value() or b"").decode())
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.lines.say("told", message.partition(), error.name())
                    for each in beginning:
                        if each.partition != message.partition():
                            self.lines.say("again", each.partition)
                    consumer.assign(beginning)
                    break
                else:
                    self._report(error)
        consumer.close()


if __name__ == "__main__":
    end_with_any_thread()
    Program(*sys.argv[1:5]).run()
