"""The program of kafka-python's client: python -m tests.proofs.clients.kafka_python BOOTSTRAP TOPIC SEED REST_MS

A call of kafka-python's producer may wait without end (docs/clients/client-notes.md). So a transaction has a time limit
here; after that the program begins again with a new producer, which ends what the last one left open, and looks up what
became of it.
"""

import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.proofs.clients.lines import ABORTED, COMMITTED, COPIES, PARTITIONS, Job, Role, Transact

_TRANSACTION_MS = 60_000
_LOOK_MS = 100
_LIMIT_S = 10
"""Longer than a take-over. One that is ended too early, on a busy machine, is looked up like the others."""
Result = TypeVar("Result")


@dataclass
class Program:
    job: Job

    def run(self) -> None:
        self.job.run(self._writer, partial(self.job.copy, self._copier), self._follow)

    def _connection(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.job.bootstrap.split(","),
            "request_timeout_ms": 5_000,
            "reconnect_backoff_max_ms": 1_000,
        }

    def _producer(self, name: str) -> KafkaProducer:
        """It has ended what the one before it left open."""
        identity = {"transactional_id": f"{self.job.topic}-{name}", "transaction_timeout_ms": _TRANSACTION_MS}
        while True:
            producer = self._until_done(partial(KafkaProducer, **self._connection(), **identity))
            try:
                self._within_limit(producer.init_transactions)
                return producer
            except (KafkaError, TimeoutError) as error:
                self.job.report(error)
                self._leave(producer)

    def _until_done(self, function: Callable[[], Result]) -> Result:
        """A node that is away is an error of a consumer, and of the opening of a client."""
        while True:
            try:
                return function()
            except KafkaError as error:
                self.job.report(error)

    def _leave(self, producer: KafkaProducer) -> None:
        with suppress(KafkaError):  # some records were not sent: the next producer fences this one
            producer.close(0)

    def _consumer(self, **settings: Any) -> KafkaConsumer:
        fixed = {"isolation_level": "read_committed", "enable_auto_commit": False, "fetch_max_wait_ms": 100}
        return KafkaConsumer(**self._connection(), **fixed, **settings)

    def _within_limit(self, function: Callable[[], Result]) -> Result:
        """TimeoutError leaves behind the thread that waits."""
        ended: Future[Result] = Future()

        def call() -> None:
            try:
                ended.set_result(function())
            except BaseException as error:
                ended.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        return ended.result(_LIMIT_S)

    # --- transactions -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _writer(self, number: str) -> AsyncIterator[Transact]:
        producer, unknown = self._producer(number), []

        async def transact(name: str, commits: bool) -> bool:
            begun_s = time.monotonic()
            try:
                self._within_limit(partial(self._transact, producer, name, commits=commits))
            except (KafkaError, TimeoutError) as error:
                self.job.report(error)
                unknown.append((name, begun_s))
                return False
            self.job.end(name, COMMITTED if commits else ABORTED, begun_s)
            return True

        yield transact
        self._leave(producer)
        for name, begun_s in unknown:
            self._leave(self._producer(number))  # which has ended that transaction
            self.job.end(name, COMMITTED if self._until_done(partial(self._is_there, name)) else ABORTED, begun_s)

    def _transact(self, producer: KafkaProducer, name: str, *, commits: bool) -> None:
        producer.begin_transaction()
        sent = [producer.send(self.job.topic, name.encode(), partition=partition) for partition in range(PARTITIONS)]
        for each in sent:
            each.get()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    def _is_there(self, name: str) -> bool:
        """Whether a read_committed reader finds the record. The transaction must have ended."""
        place, found = TopicPartition(self.job.topic, 0), False
        with closing(KafkaConsumer(**self._connection())) as everything:
            end = everything.end_offsets([place])[place]
        with closing(self._consumer()) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            while consumer.position(place) < end:
                for records in consumer.poll(_LOOK_MS).values():
                    found = found or any(record.value == name.encode() for record in records)
        return found

    # --- read, process, write -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _copier(self) -> AsyncIterator[Role]:
        settings = {"group_id": self.job.topic, "auto_offset_reset": "earliest", "session_timeout_ms": 10_000}
        producer = self._producer("copier")
        consumer = self._until_done(partial(self._consumer, **settings))
        consumer.partitions_for_topic(self.job.topic)  # else it may assign nothing, for good
        consumer.subscribe([self.job.topic])
        try:
            yield partial(self._copy_some, consumer, producer)
        finally:
            consumer.close()
            self._leave(producer)

    async def _copy_some(self, consumer: KafkaConsumer, producer: KafkaProducer) -> None:
        found = consumer.poll(_LOOK_MS)
        if not found:
            return
        metadata = consumer.group_metadata()
        ends = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in found.items()}
        copies = [
            (place.partition, b"%b %d" % (record.value, place.partition))
            for place, records in found.items()
            for record in records
        ]

        def transact() -> None:
            producer.begin_transaction()
            for partition, value in copies:
                producer.send(self.job.topic + COPIES, value, partition=partition)
            producer.send_offsets_to_transaction(ends, metadata)
            producer.commit_transaction()

        self._within_limit(transact)

    # --- a reader -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="none")
        places = [TopicPartition(self.job.topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while not self.job.over.is_set():
            for records in self._until_done(partial(consumer.poll, _LOOK_MS)).values():
                for record in records:
                    self.job.say("read", record.partition, record.offset, record.value.decode())
        consumer.close()


if __name__ == "__main__":
    Program(Job((KafkaError, TimeoutError), lambda error: type(error).__name__, *sys.argv[1:5])).run()
