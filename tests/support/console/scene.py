"""A cluster in which everything happens that the console shows: for its tests, and for the screenshots of its page.

Owns: what is written. Topics `orders` (3 partitions) and `payments`; producers `till-1` (committed and aborted),
`till-2` (open on two partitions, with a pending offset of the group `billing`), `nightly-export` (open behind it).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from oncelog.client import KafkaError, NewTopic, TopicPartition
from oncelog.client.blocking.clients import Admin, Consumer, Producer, Transaction
from oncelog.client.values.records import ConsumerGroupMetadata
from tests.support.patience import PATIENCE_MS

ADDRESSES = {
    "/": {},
    "/topics": {},
    "/topic": {"topic": "orders"},
    "/settings": {"topic": "orders"},
    "/search": {"topic": "orders", "text": "plums", "state": "COMMITTED"},
    "/partition": {"topic": "orders", "partition": "0"},
    "/messages": {"topic": "orders", "partition": "0", "from": "0"},
    "/producers": {"topic": "orders", "partition": "0"},
    "/transactions": {},
    "/transaction": {"id": "till-2"},
    "/steps": {},
    "/groups": {},
    "/group": {"id": "billing"},
    "/produce": {"topic": "orders"},
    "/hold": {"id": "till-2"},
    "/findings": {},
    "/fence": {"id": "till-2"},
    "/abort": {"topic": "orders", "partition": "0", "start": "13"},
}
"""An address of every page, with something to show."""
FRUIT = (b"apples", b"pears", b"plums", b"cherries", b"quinces")


@contextmanager
def scene(bootstrap: str) -> Iterator[None]:
    """The open transactions are aborted in the end."""
    with ExitStack() as stack:
        with Admin(bootstrap) as admin:
            admin.create_topics(NewTopic("orders", 3), NewTopic("payments", 1))
        _settled(bootstrap)
        for name, partition in (("till-2", 0), ("nightly-export", 1)):
            producer = Producer(bootstrap, transactional_id=name, transaction_timeout_ms=PATIENCE_MS)
            transaction = stack.enter_context(producer).transaction().__enter__()
            stack.callback(_abort, transaction)
            for number in range(4):
                transaction.send("orders", FRUIT[number], key=b"shop-%d" % number, partition=partition)
            if name == "till-2":
                transaction.send("payments", b'{"order": 17, "cents": 1250}', key=b"17")
                place = TopicPartition("orders", 2)
                transaction.send_offsets({place: 7}, group=ConsumerGroupMetadata("billing"))
        with Producer(bootstrap, transactional_id="till-1") as producer:
            with producer.transaction() as transaction:
                for number in range(3):
                    transaction.send("orders", FRUIT[number], key=b"shop-7", partition=0)
        yield


def _abort(transaction: Transaction) -> None:
    with suppress(KafkaError):  # a test may have fenced it
        transaction.abort()


def _settled(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        for number in range(3):
            producer.send("orders", b"outside any transaction", key=b"shop-%d" % number, partition=number)
    with Producer(bootstrap, transactional_id="till-1") as producer:
        for round_number in range(5):
            with producer.transaction() as transaction:
                for number in range(round_number + 1):
                    transaction.send("orders", FRUIT[number], key=b"shop-%d" % number, partition=number % 3)
                    transaction.send("payments", b'{"order": %d, "cents": 990}' % number, key=b"%d" % number)
                if round_number in (1, 3):
                    transaction.abort()
        for number, size in enumerate((1, 4, 12, 2, 40, 7, 150, 3, 9, 1, 25, 60)):
            with producer.transaction() as transaction:
                transaction.send_many("payments", [(b"%d" % each, b'{"cents": 990}') for each in range(size)])
                if number % 4 == 3:
                    producer.flush()  # an abort discards what has not left yet, which is a matter of milliseconds
                    transaction.abort()
    with Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest", client_id="billing-1"
    ) as consumer:
        consumer.poll(PATIENCE_MS)
        consumer.commit_sync({TopicPartition("orders", 2): 3, TopicPartition("orders", 0): 1})
