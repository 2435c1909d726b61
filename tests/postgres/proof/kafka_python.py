"""The program of kafka-python's client: python -m tests.postgres.proof.kafka_python BOOTSTRAP TOPIC SEED

A call of kafka-python's producer may wait without end (docs/clients/client-notes.md). So a transaction has a time limit
here; after that the program begins again with a new producer, which ends what the last one left open, and looks up what
became of it.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.postgres.proof.lines import (
    ABORTED,
    COMMITTED,
    COPIES,
    PARTITIONS,
    Lines,
    end_with_any_thread,
    run_threads,
)

_TRANSACTION_MS = 60_000
_LOOK_MS = 100
_LIMIT_S = 10
"""Longer than a take-over. One that is ended too early, on a busy machine, is looked up like the others."""
Result = TypeVar("Result")


@dataclass
class Program:
    bootstrap: str
    topic: str
    seed: str
    lines: Lines = field(default_factory=Lines)
    stops: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        run_threads(self.stops, self.over, self.lines, self._write, (self._copy, self._follow))

    def _connection(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap.split(","),
            "request_timeout_ms": 5_000,
            "reconnect_backoff_max_ms": 1_000,
        }

    def _producer(self, name: str) -> KafkaProducer:
        """It has ended what the one before it left open."""
        identity = {"transactional_id": f"{self.topic}-{name}", "transaction_timeout_ms": _TRANSACTION_MS}
        while True:
            producer = self._until_done(partial(KafkaProducer, **self._connection(), **identity))
            try:
                self._within_limit(producer.init_transactions)
                return producer
            except (KafkaError, TimeoutError) as error:
                self._report(error)
                self._leave(producer)

    def _until_done(self, function: Callable[[], Result]) -> Result:
        """A node that is away is an error of a consumer, and of the opening of a client."""
        while True:
            try:
                return function()
            except KafkaError as error:
                self._report(error)

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

    def _report(self, error: Exception) -> None:
        self.lines.say("error", type(error).__name__)

    # --- transactions -------------------------------------------------------------------------------------------------

    def _write(self, number: int) -> None:
        random, life, transaction = Random(f"{self.seed} {number}"), 1, 0
        producer = self._producer(str(number))
        while not self.stops.wait(random.uniform(0, 0.02)):
            transaction += 1
            name, commits, begun_s = f"{number}.{life}.{transaction}", random.random() < 0.85, time.monotonic()
            try:
                self._within_limit(partial(self._transact, producer, name, commits=commits))
                outcome = COMMITTED if commits else ABORTED
            except (KafkaError, TimeoutError) as error:
                self._report(error)
                self._leave(producer)
                producer = self._producer(str(number))
                outcome = COMMITTED if self._until_done(partial(self._is_there, name)) else ABORTED
                life, transaction = life + 1, 0
            self.lines.end(name, outcome, begun_s)
        producer.close()

    def _transact(self, producer: KafkaProducer, name: str, *, commits: bool) -> None:
        producer.begin_transaction()
        sent = [producer.send(self.topic, name.encode(), partition=partition) for partition in range(PARTITIONS)]
        for each in sent:
            each.get()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    def _is_there(self, name: str) -> bool:
        """At read_committed, once its transaction has ended."""
        place, found = TopicPartition(self.topic, 0), False
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

    def _copy(self) -> None:
        """After an error both begin again, where the group has committed."""
        settings = {"group_id": self.topic, "auto_offset_reset": "earliest", "session_timeout_ms": 10_000}
        while not self.over.is_set():
            producer = self._producer("copier")
            consumer = self._until_done(partial(self._consumer, **settings))
            consumer.partitions_for_topic(self.topic)  # else it may assign nothing, for good
            consumer.subscribe([self.topic])
            try:
                while not self.over.is_set():
                    self._copy_some(consumer, producer)
            except (KafkaError, TimeoutError) as error:
                self._report(error)
            finally:
                consumer.close()
                self._leave(producer)

    def _copy_some(self, consumer: KafkaConsumer, producer: KafkaProducer) -> None:
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
                producer.send(self.topic + COPIES, value, partition=partition)
            producer.send_offsets_to_transaction(ends, metadata)
            producer.commit_transaction()

        self._within_limit(transact)

    # --- a reader -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        consumer = self._consumer(auto_offset_reset="none")
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while not self.over.is_set():
            for records in self._until_done(partial(consumer.poll, _LOOK_MS)).values():
                for record in records:
                    self.lines.say("read", record.partition, record.offset, record.value.decode())
        consumer.close()


if __name__ == "__main__":
    end_with_any_thread()
    Program(*sys.argv[1:4]).run()
