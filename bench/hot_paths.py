"""One connection to a whole broker, and the requests that clients repeat: what each costs, in lines of Python or time.

Owns: the requests, and how they are counted: from the bytes of the socket to the bytes of the response, with everything
that follows in the same moment (flush round, markers, COMPLETE). Does not own: the limits (`tests.unit.bench`). The
broker is the real one, with its log at level info and its clock frozen; the transport, the clock and the disk are not
counted. `python -m bench.hot_paths` prints processor time, as JSON.
"""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.measure import count_lines
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.protocol.generated import (
    add_partitions_to_txn_request,
    end_txn_request,
    end_txn_response,
    fetch_request,
    produce_request,
    produce_response,
)
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.in_memory_connection import Transport
from tests.fakes.broker import HOST, PORT, VirtualBroker

TOPIC = "orders"
ID_V1, ID_V2 = "order-service-1", "order-service-2"
_PLAIN = ""
_PARTITION_OF = {_PLAIN: 0, ID_V1: 1, ID_V2: 2}
VALUE_BYTES = 100
_ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = (str(_ROOT / "tests"), str(_ROOT / "bench"), str(_ROOT / "oncelog" / "testing"))
_WARM_UP = 8
_FLEXIBLE_HEADER_BYTES = 5
_FOR_TRANSACTIONS = 1
_TIMED = 3_000

Measure = Callable[["HotPaths", Callable[[], None]], int]
"""Runs it once and says what it cost."""


def lines_of(run: Callable[[], object]) -> int:
    return count_lines(run, 1, leave_out=_LEFT_OUT)


class HotPaths:
    """Every request is answered before the next one is sent."""

    def __init__(
        self, setting: str = "oncelog.storage=memory", measure: Measure = lambda _, run: lines_of(run)
    ) -> None:
        """Each operation returns what `measure` says of each of its requests; lines of Python unless it says else."""
        self._measure = measure
        self._broker = VirtualBroker(setting, with_faults=False)
        topic = CreatableTopic(name=TOPIC, num_partitions=len(_PARTITION_OF), replication_factor=1)
        self._broker.ask(CreateTopicsRequest(topics=[topic]), 4)
        self._broker.ask(FindCoordinatorRequest(key=ID_V1, key_type=_FOR_TRANSACTIONS), 2)
        broker = self._broker.broker
        self._transport = Transport()
        self._connection = Connection(broker, Dispatcher(broker), "PLAINTEXT", (HOST, PORT), OpenConnections(broker))
        self._connection.connection_made(self._transport)  # type: ignore[arg-type]
        self._producers = {name: self._producer(name) for name in _PARTITION_OF}
        self._sequences = dict.fromkeys(_PARTITION_OF, 0)
        for _ in range(_WARM_UP):
            self.produce()
            self.fetch()
            self.transaction_v1()
            self.transaction_v2()

    def _producer(self, name: str) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=name or None, transaction_timeout_ms=60_000)
        answer = self._broker.ask(request, 4)
        return answer.producer_id, answer.producer_epoch

    @property
    def sync_count(self) -> int:
        """Calls so far that made a file durable."""
        return self._broker.disk.sync_count

    # --- operations ---------------------------------------------------------------------------------------------------

    def produce(self) -> int:
        """One record of an idempotent producer, the next in its sequence."""
        return self._produce(_PLAIN, 10)

    def fetch(self) -> int:
        """The first batch, read_committed, outside of any session."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        topic = FetchTopic(topic=TOPIC, partitions=[partition])
        request = FetchRequest(max_bytes=1_000_000, isolation_level=1, session_epoch=-1, topics=[topic])
        return self._send(fetch_request, request, 12, lambda answer: len(answer) > VALUE_BYTES)

    def transaction_v1(self) -> tuple[int, int, int]:
        """AddPartitionsToTxn, Produce of one record, EndTxn: as librdkafka does."""
        producer_id, producer_epoch = self._producers[ID_V1]
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID_V1,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[_PARTITION_OF[ID_V1]])],
        )
        added = self._send(add_partitions_to_txn_request, add, 3, lambda answer: answer[-4:-2] == bytes(2))
        return added, self._produce(ID_V1, 10), self._end(ID_V1, 3)

    def transaction_v2(self) -> tuple[int, int]:
        """Produce of one record, which adds its partition, and EndTxn, which begins an epoch: as Java's since 4.0."""
        self._sequences[ID_V2] = 0
        return self._produce(ID_V2, 12), self._end(ID_V2, 5)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _produce(self, name: str, version: int) -> int:
        producer_id, producer_epoch = self._producers[name]
        batch = encode_batch(
            [Record(0, self._broker.time.wall_ms(), b"key", bytes(VALUE_BYTES))],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequences[name],
            transactional=name != _PLAIN,
        )
        self._sequences[name] += 1
        data = PartitionProduceData(index=_PARTITION_OF[name], records=memoryview(batch))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(transactional_id=name or None, acks=-1, timeout_ms=1_000, topic_data=[topic])

        def is_right(answer: bytes) -> bool:
            decoded, _ = produce_response.decode(memoryview(answer), version, _FLEXIBLE_HEADER_BYTES)
            return decoded.responses[0].partition_responses[0].error_code == 0

        return self._send(produce_request, request, version, is_right)

    def _end(self, name: str, version: int) -> int:
        producer_id, producer_epoch = self._producers[name]
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=producer_epoch, committed=True
        )

        def is_right(answer: bytes) -> bool:
            decoded, _ = end_txn_response.decode(memoryview(answer), version, _FLEXIBLE_HEADER_BYTES)
            if version >= 5:
                self._producers[name] = decoded.producer_id, decoded.producer_epoch
            return decoded.error_code == 0

        return self._send(end_txn_request, request, version, is_right)

    def _send(self, module: ModuleType, request: Any, version: int, is_right: Callable[[bytes], bool]) -> int:
        """The cost from its bytes to those of the response, which `is_right`."""
        flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
        header = encode_request_header(module.API_KEY, version, 1, "client", flexible)
        body = header + b"".join(module.encode(request, version))
        data = len(body).to_bytes(4, "big") + body

        def run() -> None:
            self._connection.data_received(data)
            self._broker.time.settle()

        cost = self._measure(self, run)
        answer = bytes(self._transport.sent)
        self._transport.sent.clear()
        if not is_right(answer[4:]):
            raise AssertionError(f"{module.NAME} was answered {answer!r}")
        return cost


def _cpu_ns(_: HotPaths, run: Callable[[], None]) -> int:
    started_ns = time.process_time_ns()
    run()
    return time.process_time_ns() - started_ns


def cpu_us(repeat: int = _TIMED) -> dict[str, float]:
    """By title, the least of many times: other processes, and collections, only ever add to it."""
    world = HotPaths(measure=_cpu_ns)
    operations: dict[str, Callable[[], int | Iterable[int]]] = {
        "Produce of one record": world.produce,
        "Fetch of one batch": world.fetch,
        "transaction of one record, version 1 (three requests)": world.transaction_v1,
        "transaction of one record, version 2 (two requests)": world.transaction_v2,
    }
    return {title: min(_sum(run()) for _ in range(repeat)) / 1_000 for title, run in operations.items()}


def _sum(cost: int | Iterable[int]) -> int:
    return cost if isinstance(cost, int) else sum(cost)


if __name__ == "__main__":
    print(json.dumps(cpu_us()))
