"""What the tests of faults share: a producer of named values, what readers of committed records get, rules in short."""

from typing import Any

from oncelog.broker.faults.planted import PlantedRule
from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import Reply, VirtualBroker
from tests.fakes.logs import read_records

V1, V2 = 1, 2
LEVELS = (V1, V2)
_PRODUCE = {V1: 11, V2: 12}
_END = {V1: 4, V2: 5}


class Writer(Producer):
    """A producer of one of the two transaction protocols, whose values are distinct."""

    def __init__(self, broker: VirtualBroker, level: int = V1, transactional_id: str = TRANSACTIONAL_ID) -> None:
        super().__init__(broker, transactional_id)
        self.level = level

    def write(self, value: str, partition: int = 0, *, sequence: int = 0) -> ErrorCode:
        """Write a value; under version 1 the partition must be in the transaction already."""
        return error_of(self.send_write(value, partition, sequence=sequence))

    def send_write(self, value: str, partition: int = 0, *, sequence: int = 0) -> Reply:
        batch = encode_batch(
            [Record(0, self.broker.time.wall_ms(), None, value.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        topic = TopicProduceData(name=TOPIC, topic_id=log_of(self.broker).topic_id, partition_data=[data])
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=1_000, topic_data=[topic])
        return self.broker.send(request, _PRODUCE[self.level])

    def send_end(self, *, commit: bool = True) -> Reply:
        return self.broker.send(EndTxnRequest(committed=commit, **self.identity), _END[self.level])

    def finish(self, *, commit: bool = True) -> ErrorCode:
        """End the transaction, and take up the identity in the answer."""
        return self.end(commit, _END[self.level])


def error_of(reply: Reply) -> ErrorCode:
    answer = reply.message
    if hasattr(answer, "error_code"):
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def opened(level: int = V1, *partitions: int) -> tuple[VirtualBroker, Writer]:
    """One value in each partition, in an open transaction."""
    broker = broker_with_topic(f"oncelog.feature.transaction.version={level}")
    writer = Writer(broker, level).init()
    return broker, begin(writer, *(partitions or (0, 1)))


def begin(writer: Writer, *partitions: int, value: str = "first") -> Writer:
    if writer.level == V1:
        assert writer.add(*partitions) == [ErrorCode.NONE] * len(partitions)
    for partition in partitions:
        assert writer.write(value, partition) is ErrorCode.NONE
    return writer


def plant(broker: VirtualBroker, point: Point, action: Action, of: Selector | None = None, **more: Any) -> PlantedRule:
    return broker.faults.plant(Rule(point, action, of or Selector(), **more))


def state_of(broker: VirtualBroker, transactional_id: str = TRANSACTIONAL_ID) -> str | None:
    for status in broker.broker.transactions.current():
        if status.metadata.transactional_id == transactional_id:
            return status.metadata.state.kafka_name
    return None


def committed(broker: VirtualBroker, partition: int = 0) -> list[str]:
    """The values that a read_committed reader gets of one partition."""
    log = log_of(broker, partition)
    result = read_records(log, log.log_start_offset, 1 << 20, FetchIsolation.TXN_COMMITTED)
    to_come = sorted(result.aborted_transactions or (), key=lambda aborted: aborted.first_offset, reverse=True)
    aborting: set[int] = set()
    values = []
    for header, batch in iter_batches(result.records):
        while to_come and to_come[-1].first_offset <= header.base_offset:
            aborting.add(to_come.pop().producer_id)
        if header.is_control:
            if decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                aborting.discard(header.producer_id)
        elif header.producer_id not in aborting or not header.is_transactional:
            values += [(record.value or b"").decode() for record in decode_records(batch)]
    return values


def is_settled(broker: VirtualBroker) -> bool:
    """Nothing is open anywhere: readers of committed records see to the end."""
    logs = [log_of(broker, partition) for partition in (0, 1)]
    return broker.broker.transactions.open_count == 0 and all(
        log.last_stable_offset == log.log_end_offset for log in logs
    )
