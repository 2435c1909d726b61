"""A broker with a transactional id in each state of the protocol, named after it: for all that shows states.

Owns: how each state comes about. The markers of decided transactions are held on the second of their two partitions.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.records import to_record
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.client import KafkaError, NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.faults import Action, Point, Rule, Selector
from oncelog.testing import Broker
from oncelog.testing.lives import ThreadLife

TIMEOUT_MS = 900_000
"""The longest that brokers allow: none passes while a test runs."""
_ENDS = {"PrepareCommit": True, "CompleteCommit": True, "PrepareAbort": False, "CompleteAbort": False}
_NOT_LOGGED = {"PrepareEpochFence": "Ongoing", "Dead": "Empty"}
"""Kafka's log may have these, and no request leads to one: the coordinator replays a record. From which state."""


def topic_of(state: str) -> str:
    """The topic of the two partitions that its transaction writes to."""
    return f"of-{state}"


@contextmanager
def in_state(broker: Broker, state: str) -> Iterator[Producer]:
    """The transactional id `state` is in this state until the end of the block."""
    with ExitStack() as stack:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic(topic_of(state), 2))
        producer = Producer(broker.bootstrap_servers, transactional_id=state, transaction_timeout_ms=TIMEOUT_MS)
        stack.enter_context(producer)
        begun = _NOT_LOGGED.get(state, state)
        if begun == "Empty":
            producer.init_transactions()
        else:
            transaction = producer.transaction().__enter__()
            for partition in range(2):
                transaction.send(topic_of(state), b"value", partition=partition)
            producer.flush()
            if state.startswith("Prepare") and state in _ENDS:
                held = Selector(transactional_id=state, partition=1)
                rule = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, held, times=None))
                stack.callback(broker.faults.remove, rule)
            if state in _ENDS:
                transaction.commit() if _ENDS[state] else transaction.abort()
        if state in _NOT_LOGGED:
            _replay(broker, state)
        while {each.transactional_id: each.state for each in broker.transactions()}[state] != state:
            pass  # the last marker may follow the response
        yield producer
        with suppress(KafkaError):
            producer.close()


def _replay(broker: Broker, state: str) -> None:
    life = broker._running()
    if not isinstance(life, ThreadLife):
        raise RuntimeError("the coordinator is in another process")
    transactions = life._running.broker.transactions

    async def append() -> None:
        (metadata,) = (each for each in transactions.all() if each.transactional_id == state)
        (target,) = (each for each in TransactionState if each.kafka_name == state)
        record: CoordinatorRecord = to_record(metadata._replace(state=target), 2)
        partition = transactions._runtime.partition_for(state)
        done = asyncio.get_running_loop().create_future()
        transactions._runtime.append(partition, [record]).then(lambda _: done.set_result(None))
        await done

    life._call(append())
