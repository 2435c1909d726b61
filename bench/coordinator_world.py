"""A whole broker with many transactions open at its coordinator, and one more that runs from begin to end.

Owns: how it is filled, and its requests. Requests go through the dispatcher as bytes and return as bytes: only the
socket is missing. The broker is the real one on a real directory; its clock is frozen.
"""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from bench.measure import Operation
from oncelog.broker.system.disk import RealDisk
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.producer import TOPIC, Producer
from tests.fakes.broker import VirtualBroker

_PROGRESS_EVERY = 100
_PRODUCE_VERSION, _END_VERSION = 12, 5
_FOR_TRANSACTIONS = 1


def broker_on(path: Path, partition_count: int = 2) -> VirtualBroker:
    """A whole broker with one topic, on a real directory."""
    disk = cast(MemoryDisk, RealDisk(path))  # only tests use more of the fake than the port
    broker = VirtualBroker("oncelog.flush.policy=memory", disk=disk, with_faults=False)
    topic = CreatableTopic(name=TOPIC, num_partitions=partition_count, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic]), 4)
    broker.ask(FindCoordinatorRequest(key="any", key_type=_FOR_TRANSACTIONS), 2)
    return broker


class Coordinator:
    """Transactional ids with open transactions, on one partition and at the coordinator."""

    axis = "open transactions of the whole broker"

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self.broker = broker_on(path)
        self.producer = Producer(self.broker, "measured").init()

    def filled(self, progress: Callable[[int], None]) -> "Coordinator":
        for number in range(self.size):
            Producer(self.broker, f"open-{number}").init().produce(version=_PRODUCE_VERSION)
            if number % _PROGRESS_EVERY == 0:
                progress(number)
        return self

    def close(self) -> None:
        """Give back its descriptors, of which a large one has hundreds."""
        self.broker.broker.logs.close()
        cast(RealDisk, self.broker.disk).close()

    def transaction(self) -> None:
        self.producer.produce(version=_PRODUCE_VERSION)
        self.producer.end(version=_END_VERSION)

    def begin_again(self) -> None:
        """A new producer under an old transactional id."""
        self.producer.init()

    def operations(self) -> list[Operation]:
        return [
            Operation("one transaction: Produce, EndTxn", self.transaction),
            Operation("InitProducerId", self.begin_again),
        ]
