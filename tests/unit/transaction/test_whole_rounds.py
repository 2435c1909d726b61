"""A transaction that shares rounds needs them whole: over starts with an unreadable file, a repair, a full disk."""

import errno
from itertools import count
from random import Random

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.control import decode_end_txn_marker
from oncelog.protocol.records.record import Record
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from oncelog.tools.log.check import examine, repair
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import read_records
from tests.fakes.virtual_time import VirtualTime
from tests.support.samples import examples

E, S = ErrorCode, TransactionState
_FILE = "00000000000000000000.log"
_SECOND = f"{TOPIC}-1/{_FILE}"
_ONE = "transaction.state.log.num.partitions=1"
_AFTER_THE_TIMEOUT_MS = 60_000


def begun() -> tuple[VirtualBroker, Producer]:
    broker = broker_with_topic(_ONE)
    producer = Producer(broker).init()
    for partition in (0, 1):
        assert producer.produce(partition, version=12) is E.NONE
    return broker, producer


def start_to_end(broker: VirtualBroker, producer: Producer) -> None:
    """PREPARE, markers and COMPLETE are appended, in no round yet."""
    broker.start(EndTxnRequest(committed=True, **producer.identity), 5)


def on(disk: MemoryDisk, broker: VirtualBroker) -> VirtualBroker:
    return VirtualBroker(_ONE, disk=disk, time=VirtualTime(broker.time.wall_ms()), seed=1)


def states(broker: VirtualBroker) -> list[TransactionState]:
    return [status.metadata.state for status in broker.broker.transactions.current()]


def is_open(broker: VirtualBroker) -> list[bool]:
    return [log_of(broker, index).last_stable_offset < log_of(broker, index).log_end_offset for index in (0, 1)]


def markers(broker: VirtualBroker, partition: int) -> list[str]:
    found = read_records(log_of(broker, partition), 0, 1 << 20, FetchIsolation.LOG_END)
    return [decode_end_txn_marker(batch)[0].name for header, batch in iter_batches(found.records) if header.is_control]


@pytest.mark.parametrize("starts", [1, 2])
def test_a_partition_that_is_offline_at_a_start_keeps_nothing_of_a_round_that_was_not_committed(starts: int) -> None:
    broker, producer = begun()
    start_to_end(broker, producer)
    disk = broker.disk.kill()
    for _ in range(starts):
        disk.refused.add(_SECOND)
        broker = on(disk, broker)
        with pytest.raises(KafkaError, match="offline"):
            log_of(broker, 1)
        disk = broker.disk.kill()
    disk.refused.clear()
    broker = on(disk, broker)
    broker.time.advance(_AFTER_THE_TIMEOUT_MS)
    assert states(broker) == [S.COMPLETE_ABORT]
    assert [markers(broker, index) for index in (0, 1)] == [["ABORT"], ["ABORT"]]


def test_nor_does_the_log_of_the_coordinator() -> None:
    broker, producer = begun()
    start_to_end(broker, producer)
    disk = broker.disk.kill()
    disk.refused.add(f"__transaction_state-0/{_FILE}")
    with pytest.raises(StartError, match="Permission denied"):
        on(disk, broker)
    disk = disk.kill()
    disk.refused.clear()
    broker = on(disk, broker)
    broker.time.advance(_AFTER_THE_TIMEOUT_MS)
    assert is_open(broker) == [False, False]


def test_nor_a_batch_whose_addition_was_not_committed() -> None:
    broker = broker_with_topic(_ONE)
    producer = Producer(broker).init()
    assert producer.produce(1, version=12) is E.NONE
    assert producer.end(True, 5) is E.NONE
    producer.start_produce(1, version=12)
    disk = broker.disk.kill()
    disk.refused.add(_SECOND)
    broker = on(disk, broker)
    disk = broker.disk.kill()
    disk.refused.clear()
    broker = on(disk, broker)
    broker.time.advance(_AFTER_THE_TIMEOUT_MS)
    assert not is_open(broker)[1], "a transaction of which no coordinator knows"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("how", ["after a start", "at once"])
def test_a_repair_keeps_all_of_a_round_that_was_not_committed_or_nothing(how: str) -> None:
    for seed in range(1) if how == "after a start" else range(100, 100 + examples(150)):
        broker = broker_with_topic(_ONE)
        batch = memoryview(encode_batch([Record(0, broker.time.wall_ms(), None, bytes(50))]))
        data = [PartitionProduceData(index=1, records=batch)]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        broker.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
        producer = Producer(broker).init()
        for partition in (0, 1):
            assert producer.produce(partition, version=12) is E.NONE
        broker.broker.logs.store.file_sync.begin_checkpoint()  # type: ignore[attr-defined]
        broker.time.settle()
        start_to_end(broker, producer)
        disk = broker.disk.kill() if how == "after a start" else broker.disk.crash(Random(seed))
        disk.files[_SECOND].data[70] ^= 1  # in the first batch
        disk.make_durable()
        if how == "after a start":
            broker = on(disk, broker)
            broker.broker.logs.close()
            disk = broker.disk.kill()
        repair(disk, examine(disk).damaged)
        broker = on(disk, broker)
        broker.time.advance(_AFTER_THE_TIMEOUT_MS)
        fates = [set(markers(broker, index)) for index in (0, 1)]
        assert fates[0] == fates[1]
        assert len(fates[0]) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_add", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_before_the_journal_can_be_begun_each_step_waits_for_the_one_before_it(seed: int, is_add: bool) -> None:
    """A start on a full disk: what has room is committed by syncing each file."""
    for operations in count():
        disk = MemoryDisk()
        disk.append_error = lambda path: OSError(errno.ENOSPC, "", path) if path.startswith("journal") else None
        broker = VirtualBroker(_ONE, disk=disk)
        broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)]), 4)
        broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1), 2)
        producer = Producer(broker).init()
        try:
            for partition in (0, 1):
                if is_add and partition:
                    disk.operations_left = operations
                producer.produce(partition, version=12)
            disk.operations_left = operations if disk.operations_left is None else disk.operations_left
            producer.end(True, 5)
        except (PowerCut, AssertionError):
            assert disk.operations_left is not None
            assert disk.operations_left < 0
        is_cut = disk.operations_left is not None and disk.operations_left < 0
        left = broker.crashed(seed * 1_000 + operations)
        left.time.advance(_AFTER_THE_TIMEOUT_MS)
        assert is_open(left) == [False, False], (operations, states(left))
        if not is_cut:
            return
