"""What a client asks as soon as the broker is back from a kill, in the middle of its transaction: all is answered."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from protocol.generated.end_txn_request import EndTxnRequest
from protocol.generated.find_coordinator_request import FindCoordinatorRequest
from protocol.generated.init_producer_id_request import InitProducerIdRequest
from protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.fakes.broker import HOST, PORT, VirtualBroker

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "copier"
STOPS: dict[str, Callable[[VirtualBroker], VirtualBroker]] = {
    "kill": VirtualBroker.killed,
    "power": lambda broker: broker.crashed(1),
}


class Copier:
    """The coordinator requests of one transaction in the versions that librdkafka sends; each answer is taken at once,
    with no time for a background turn."""

    def __init__(self, broker: VirtualBroker) -> None:
        self.broker = broker
        broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 4)
        self.find_coordinators()
        init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        pair = broker.ask(init, 1)
        self._producer: dict[str, Any] = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": pair.producer_id,
            "producer_epoch": pair.producer_epoch,
        }

    def find_coordinators(self) -> None:
        for kind, key in enumerate((GROUP, TRANSACTIONAL_ID)):
            found = self.broker.ask(FindCoordinatorRequest(key=key, key_type=kind), 2)
            assert (found.error_code, found.host, found.port) == (ErrorCode.NONE, HOST, PORT)

    def add_offsets(self) -> None:
        answer = self.broker.ask(AddOffsetsToTxnRequest(group_id=GROUP, **self._producer), 0)
        assert answer.error_code == ErrorCode.NONE

    def commit_offset(self) -> None:
        data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])]
        answer = self.broker.ask(TxnOffsetCommitRequest(group_id=GROUP, topics=topics, **self._producer), 3)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def end(self) -> None:
        assert self.broker.ask(EndTxnRequest(committed=True, **self._producer), 1).error_code == ErrorCode.NONE


STEPS = (Copier.add_offsets, Copier.commit_offset, Copier.end)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("done", range(len(STEPS)))
def test_a_transaction_continues_with_the_first_request_after_a_restart(done: int, stop: str) -> None:
    copier = Copier(VirtualBroker())
    for step in STEPS[:done]:
        step(copier)
    copier.broker = STOPS[stop](copier.broker)
    copier.find_coordinators()
    # The last answer before the stop may not have arrived: a client sends that request again.
    for step in STEPS[max(0, done - 1) :]:
        step(copier)
