"""librdkafka clients that transfer, process and read while their broker is killed; they write their history down.

Owns: what each client does, and when it starts again. librdkafka does not expose producer ids and epochs; in their
place the history counts: the number of a transactional id, and how many producers it has had.
"""

import threading
from collections.abc import Callable
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.events import End, History, Identity, Init, OffsetFetch, Outcome, Partition, Poll, Send, SendOffset
from tests.history.recorder import Recorder
from tests.support.patience import PATIENCE_S

LEGS: tuple[Partition, ...] = (("ledger", 0), ("ledger", 1))
INPUT: Partition = ("input", 0)
OUTPUT: Partition = ("output", 0)
GROUP = "pipeline"


class Run:
    """The objects that all clients share."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.recorder = Recorder(History(pipelines=[(GROUP, INPUT, OUTPUT)]))
        self.is_over = threading.Event()


class TransactionalProducer:
    """A transactional id and its producers, one after the other."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.transactional_id = f"transactional-{number}"
        self.identity: Identity = (number, -1)
        self.transaction_count = 0
        self.transaction = ""
        self.producer = self.next_producer()

    @property
    def session(self) -> str:
        return f"{self.transactional_id}.{self.identity[1]}"

    def next_producer(self) -> Producer:
        """A new one, which fences the one before."""
        self.identity = self.identity[0], self.identity[1] + 1
        recorder = self.run.recorder
        init = Init(recorder.asked(), self.session, self.transactional_id, self.identity)
        pending = recorder.begin(recorder.history.inits, init)
        settings = {
            **connection(self.run),
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 1,
        }
        self.producer = Producer(settings)
        again(lambda: self.producer.init_transactions(PATIENCE_S))
        pending.done()
        return self.producer

    def begin(self) -> None:
        self.transaction_count += 1
        self.transaction = f"{self.session}:{self.transaction_count}"
        self.producer.begin_transaction()

    def send(self, partition: Partition, value: bytes, source: tuple[Partition, int] | None = None) -> None:
        recorder = self.run.recorder
        send = Send(recorder.asked(), self.session, self.transaction, partition, value, self.identity, source=source)
        pending = recorder.begin(recorder.history.sends, send)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                pending.done(offset=message.offset())

        self.producer.produce(partition[0], value, partition=partition[1], on_delivery=on_delivery)

    def send_offset(self, consumer: Consumer, offset: int) -> None:
        recorder = self.run.recorder
        sent = SendOffset(recorder.asked(), self.session, self.transaction, GROUP, INPUT, offset, self.identity)
        pending = recorder.begin(recorder.history.send_offsets, sent)
        metadata = consumer.consumer_group_metadata()
        again(lambda: self.producer.send_offsets_to_transaction([TopicPartition(*INPUT, offset)], metadata, PATIENCE_S))
        pending.done()

    def end(self, *, commit: bool) -> None:
        """Raises KafkaException; the outcome of a refused commit is unknown: this client does not report its tries."""
        recorder = self.run.recorder
        if commit:
            # Delivery reports come to who waits for them.
            self.producer.flush(PATIENCE_S)
        ending = End(recorder.asked(), self.session, self.transaction, commit, self.identity)
        pending = recorder.begin(recorder.history.ends, ending)
        again(lambda: (self.producer.commit_transaction if commit else self.producer.abort_transaction)(PATIENCE_S))
        pending.done()

    def recover(self, raised: KafkaException) -> None:
        """Abort, or start a new producer where this one can do no more."""
        if raised.args[0].txn_requires_abort():
            try:
                self.end(commit=False)
                return
            except KafkaException:
                pass
        self.next_producer()

    def leave_a_zombie(self) -> None:
        """Another producer takes over in the middle of a transaction; the old one commits all the same."""
        self.begin()
        self.send(LEGS[0], f"{self.transaction}/zombie".encode())
        self.producer.flush(PATIENCE_S)
        zombie, session, transaction, identity = self.producer, self.session, self.transaction, self.identity
        self.next_producer()
        recorder = self.run.recorder
        pending = recorder.begin(recorder.history.ends, End(recorder.asked(), session, transaction, True, identity))
        try:
            again(lambda: zombie.commit_transaction(PATIENCE_S))
        except KafkaException:
            pending.done(Outcome.FAILED)
        else:
            pending.done()


def again(function: Callable[[], object]) -> None:
    """Repeats a call while its error is retriable; raises any other error."""
    while True:
        try:
            function()
            return
        except KafkaException as raised:
            if not raised.args[0].retriable():
                raise


def connection(run: Run) -> dict[str, object]:
    backoff: dict[str, object] = {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "retry.backoff.max.ms": 200}
    # librdkafka 2.16 waits for brokers that it has removed itself (docs/clients/client-notes.md).
    backoff |= {"metadata.recovery.strategy": "none"}
    # What it says of a broker that is not there is no news.
    return {"bootstrap.servers": run.bootstrap, "log_level": 0, **backoff}


def transfers(run: Run, number: int) -> None:
    random, owner = Random(number), TransactionalProducer(run, number)
    while not run.is_over.is_set():
        try:
            if random.random() < 0.05:
                owner.leave_a_zombie()
            owner.begin()
            for leg in random.sample(LEGS, len(LEGS)):
                owner.send(leg, f"{owner.transaction}/{leg[1]}".encode())
            owner.end(commit=random.random() < 0.75)
        except KafkaException as raised:
            owner.recover(raised)


def feeds(run: Run) -> None:
    """A producer with idempotence alone."""
    producer = Producer({**connection(run), "enable.idempotence": True})
    recorder, number = run.recorder, 0
    while not run.is_over.wait(0.005):
        value = b"input-%d" % number
        number += 1
        send = Send(recorder.asked(), "feeder", None, INPUT, value)
        pending = recorder.begin(recorder.history.sends, send)

        def on_delivery(error: KafkaError | None, message: Message, pending=pending) -> None:  # type: ignore[no-untyped-def]
            if error is None:
                pending.done(offset=message.offset())

        producer.produce(INPUT[0], value, partition=INPUT[1], on_delivery=on_delivery)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise AssertionError("the feeder was not answered")


def new_consumer(run: Run, group: str, *, is_committed: bool = True) -> Consumer:
    return Consumer(
        {
            **connection(run),
            "group.id": group,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )


def committed_offset(run: Run, consumer: Consumer) -> int:
    recorder = run.recorder
    while True:
        span = recorder.asked()
        try:
            (found,) = consumer.committed([TopicPartition(*INPUT)], PATIENCE_S)
        except KafkaException:
            continue
        if found.error is None:
            offset = max(-1, found.offset)  # librdkafka's "none" is another number below zero
            recorder.begin(recorder.history.offset_fetches, OffsetFetch(span, GROUP, INPUT, offset)).done()
            return int(offset)


def processes(run: Run, number: int) -> None:
    """Consume, process, produce: the input's offsets in the transaction of the output."""
    random, recorder, owner = Random(number), run.recorder, TransactionalProducer(run, number)
    consumer = new_consumer(run, GROUP)
    position = max(0, committed_offset(run, consumer))
    consumer.assign([TopicPartition(*INPUT, position)])
    while not run.is_over.is_set():
        span = recorder.asked()
        messages = [message for message in consumer.consume(20, 0.1) if message.error() is None]
        if not messages:
            continue
        try:
            owner.begin()
            following = messages[-1].offset() + 1
            records = tuple((message.offset(), message.value() or b"") for message in messages)
            name = owner.transaction
            poll = Poll(span, name, True, INPUT, position, following, records, name)
            recorder.begin(recorder.history.polls, poll).done()
            for offset, value in records:
                owner.send(OUTPUT, value + f"|{name}".encode(), (INPUT, offset))
            owner.send_offset(consumer, following)
            owner.end(commit=random.random() < 0.85)
        except KafkaException as raised:
            owner.recover(raised)
        position = max(0, committed_offset(run, consumer))
        if position != following:
            consumer.assign([TopicPartition(*INPUT, position)])
    consumer.close()


def follows(run: Run) -> None:
    """A reader that is there from the first record to the last."""
    consumer = new_consumer(run, "follower")
    positions: dict[Partition, int] = dict.fromkeys((*LEGS, INPUT, OUTPUT), 0)
    consumer.assign([TopicPartition(*partition, 0) for partition in positions])
    recorder = run.recorder
    while not run.is_over.is_set():
        span = recorder.asked()
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                partition = str(message.topic()), int(message.partition() or 0)
                following = int(message.offset() or 0) + 1
                record = (following - 1, message.value() or b"")
                poll = Poll(span, "follower", True, partition, positions[partition], following, (record,))
                recorder.begin(recorder.history.polls, poll).done()
                positions[partition] = following
    consumer.close()
