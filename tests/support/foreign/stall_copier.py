"""One copier of `stall_run`: reads its topic and writes what it reads back to it, exactly once, until it is killed.

`python -m tests.support.foreign.stall_copier BOOTSTRAP TOPIC [KEY=VALUE …]`, the last being settings of its clients: a
JSON line for each committed transaction (when it began and was committed, by the wall clock) on standard output,
librdkafka's debug log on standard error.
"""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.foreign.kill_run import again
from tests.support.patience import PATIENCE_S

DEBUG = "eos,broker,protocol,metadata,cgrp"
_RECORDS = 5


class Copier:
    """Librdkafka's defaults wherever a user would leave them."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, str]) -> None:
        self.topic = topic
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.instance.id": topic,  # a copier in place of one that was stopped need not wait for its session
                "log_level": 0,
                **settings,
            }
        )
        self._settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "debug": DEBUG, **settings}
        self.producer = self._next_producer()

    def _next_producer(self) -> Producer:
        producer = Producer(self._settings)
        again(lambda: producer.init_transactions(PATIENCE_S))
        return producer

    def run(self) -> None:
        self.producer.begin_transaction()
        for number in range(_RECORDS):
            self.producer.produce(self.topic, b"%d" % number)
        again(lambda: self.producer.commit_transaction(PATIENCE_S))
        self.consumer.subscribe([self.topic])
        while True:
            messages = [message for message in self.consumer.consume(_RECORDS, 0.1) if message.error() is None]
            if messages:
                self._copy([message.value() or b"" for message in messages], int(messages[-1].offset() or 0) + 1)

    def _copy(self, values: list[bytes], next_offset: int) -> None:
        position, began = [TopicPartition(self.topic, 0, next_offset)], time.time()
        try:
            self.producer.begin_transaction()
            for value in values:
                self.producer.produce(self.topic, value)
            metadata = self.consumer.consumer_group_metadata()
            again(lambda: self.producer.send_offsets_to_transaction(position, metadata, PATIENCE_S))
            again(lambda: self.producer.commit_transaction(PATIENCE_S))
        except KafkaException as raised:
            self._recover(raised)
            again(self._rewind)
        else:
            print(json.dumps({"began": began, "committed": time.time()}), flush=True)

    def _recover(self, raised: KafkaException) -> None:
        """Abort, or take a new producer where an outage has outlived the transaction."""
        if raised.args[0].txn_requires_abort():
            try:
                again(lambda: self.producer.abort_transaction(PATIENCE_S))
                return
            except KafkaException:
                pass
        self.producer = self._next_producer()

    def _rewind(self) -> None:
        """Back to what is committed: the records of the aborted transaction are copied again."""
        for partition in self.consumer.committed(self.consumer.assignment(), PATIENCE_S):
            self.consumer.seek(TopicPartition(partition.topic, partition.partition, max(0, partition.offset)))


if __name__ == "__main__":
    Copier(sys.argv[1], sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[3:])).run()
