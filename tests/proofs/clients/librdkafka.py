"""The program of librdkafka's client: python -m tests.proofs.clients.librdkafka BOOTSTRAP TOPIC SEED REST_MS"""

import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.proofs.clients.lines import ABORTED, COMMITTED, COPIES, PARTITIONS, UNKNOWN, Job, Role, Transact
from tests.support.patience import PATIENCE_S

_TIMEOUT_MS = 60_000
_LOOK_S = 0.1


@dataclass
class Program:
    job: Job

    def run(self) -> None:
        self.job.run(self._writer, partial(self.job.copy, self._copier), self._follow)

    def _connection(self) -> dict[str, Any]:
        # librdkafka 2.16 waits for brokers that it has removed itself (docs/clients/client-notes.md).
        settings = {"metadata.recovery.strategy": "none", "socket.timeout.ms": 5_000, "log_level": 0}
        backoff = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 500}
        return {"bootstrap.servers": self.job.bootstrap, **settings, **backoff}

    def _producer(self, name: str) -> Producer:
        settings = {
            "transactional.id": f"{self.job.topic}-{name}",
            "transaction.timeout.ms": _TIMEOUT_MS,
            "linger.ms": 1,
        }
        producer = Producer({**self._connection(), **settings})
        self._again(lambda: producer.init_transactions(PATIENCE_S))
        return producer

    def _consumer(self, **settings: Any) -> Consumer:
        fixed = {"isolation.level": "read_committed", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        return Consumer({**self._connection(), "group.id": self.job.topic, **fixed, **wanted})

    def _again(self, function: Callable[[], object]) -> None:
        """Repeats a call while its error is retriable; raises any other error."""
        while True:
            try:
                function()
                return
            except KafkaException as raised:
                if not raised.args[0].retriable():
                    raise
                self.job.report(raised)

    # --- transactions -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _writer(self, number: str) -> AsyncIterator[Transact]:
        yield partial(self._transact, self._producer(number))

    async def _transact(self, producer: Producer, name: str, commits: bool) -> bool:
        begun_s, asked = time.monotonic(), False
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(self.job.topic, name.encode(), partition=partition)
            if commits:
                producer.flush(PATIENCE_S)
                asked = True
                self._again(lambda: producer.commit_transaction(PATIENCE_S))
            else:
                producer.flush(PATIENCE_S)
                self._again(lambda: producer.abort_transaction(PATIENCE_S))
            self.job.end(name, COMMITTED if commits else ABORTED, begun_s)
        except KafkaException as raised:
            goes_on = self._gives_up(producer, raised)
            self.job.end(name, UNKNOWN if asked and not goes_on else ABORTED, begun_s)
            return goes_on
        return True

    def _gives_up(self, producer: Producer, raised: KafkaException) -> bool:
        """Whether the transaction is aborted."""
        self.job.report(raised)
        if not raised.args[0].txn_requires_abort():
            return False
        try:
            self._again(lambda: producer.abort_transaction(PATIENCE_S))
        except KafkaException as refused:
            self.job.report(refused)
            return False
        return True

    # --- read, process, write -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _copier(self) -> AsyncIterator[Role]:
        with closing(self._consumer(auto_offset_reset="earliest", session_timeout_ms=10_000)) as consumer:
            consumer.subscribe([self.job.topic])
            yield partial(self._copy_some, consumer, self._producer("copier"))

    async def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        messages = [self._checked(each) for each in consumer.consume(100, _LOOK_S)]
        if not messages:
            return
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            partition = int(message.partition() or 0)
            value = b"%b %d" % (message.value() or b"", partition)
            producer.produce(self.job.topic + COPIES, value, partition=partition)
            ends[partition] = int(message.offset() or 0) + 1
        offsets = [TopicPartition(self.job.topic, partition, end) for partition, end in ends.items()]
        metadata = consumer.consumer_group_metadata()
        self._again(lambda: producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S))
        self._again(lambda: producer.commit_transaction(PATIENCE_S))

    def _checked(self, message: Message) -> Message:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        return message

    # --- a reader -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="error", group_id=f"{self.job.topic}-follower")
        beginning = [TopicPartition(self.job.topic, partition, 0) for partition in range(PARTITIONS)]
        consumer.assign(beginning)
        while not self.job.over.is_set():
            for message in consumer.consume(100, _LOOK_S):
                error = message.error()
                if error is None:
                    self.job.say("read", message.partition(), message.offset(), (message.value() or b"").decode())
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.job.say("told", message.partition(), error.name())
                    for each in beginning:
                        if each.partition != message.partition():
                            self.job.say("again", each.partition)
                    consumer.assign(beginning)
                    break
                else:
                    self.job.say("error", error.name())
        consumer.close()


if __name__ == "__main__":
    Program(Job(KafkaException, lambda raised: raised.args[0].name(), *sys.argv[1:5])).run()
