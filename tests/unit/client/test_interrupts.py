"""Ctrl-C at any moment of a client's life: with `asyncio.run` it cancels the main task in a signal handler. Python runs
that wherever a call begins or has returned, and not only between two turns of the loop.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import pytest

from oncelog.client import Consumer, ConsumerGroupMetadata, Producer, TopicPartition
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.generated.leave_group_response import LeaveGroupResponse
from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse
from tests.fakes.logs import batch
from tests.fakes.scripted_answers import OF_A_MEMBER, OF_A_PRODUCER, TOPIC, add_partitions
from tests.fakes.virtual_loop import Answers, ScriptedBroker, run_virtually

pytestmark = pytest.mark.interpreted
HOST = "host:1"
PLACE = TopicPartition(TOPIC, 0)
CLOSED_WITHIN_S = 60.0
Life = Callable[[], Awaitable[None]]


def fetch(request: FetchRequest) -> FetchResponse:
    wanted = [part for topic in request.topics for part in topic.partitions if part.fetch_offset == 0]
    topic_id = request.topics[0].topic_id if request.topics else None
    parts = [PartitionData(partition_index=0, high_watermark=3, last_stable_offset=3, records=batch(3)) for _ in wanted]
    found = FetchableTopicResponse(topic=TOPIC, partitions=parts)
    if topic_id is not None:
        found.topic_id = topic_id
    return FetchResponse(responses=[found] if parts else [])


OF_A_READER: Answers = {
    **OF_A_MEMBER,
    ApiKey.FETCH: fetch,
    ApiKey.OFFSET_COMMIT: lambda _: OffsetCommitResponse(),
    ApiKey.LEAVE_GROUP: lambda _: LeaveGroupResponse(),
}
OF_A_WRITER: Answers = {**OF_A_PRODUCER, ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions}


async def read() -> None:
    async with Consumer(TOPIC, bootstrap_servers=HOST, group_id="group", auto_offset_reset="earliest") as consumer:
        taken = 0
        async for _ in consumer:
            taken += 1
            if taken == 3:
                break
        await consumer.commit_sync()


async def write() -> None:
    async with Producer(HOST, transactional_id="id") as producer, producer.transaction() as transaction:
        await transaction.send(TOPIC, b"value")
        await transaction.send_soon(TOPIC, b"value")
        await transaction.send_offsets({PLACE: 1}, group=ConsumerGroupMetadata("group"))


class Interrupt:
    """Cancels `task` at the `number`th moment in the client's code at which Python runs signal handlers."""

    def __init__(self, task: "asyncio.Task[Any]", number: int) -> None:
        self._task = task
        self._left = number
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or "/client/" not in frame.f_code.co_filename:
            return
        if self._left == 0:
            self.has_come = True
            self._task.cancel()
        self._left -= 1


def interrupted(life: Life, broker: ScriptedBroker, number: int) -> bool:
    """Whether the life lasted until then."""
    complaints: list[dict[str, Any]] = []
    interrupts: list[Interrupt] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        task = asyncio.current_task()
        assert task is not None
        interrupts.append(Interrupt(task, number))
        sys.setprofile(interrupts[0])
        try:
            await life()
        finally:
            sys.setprofile(None)
            assert loop.time() < CLOSED_WITHIN_S
            assert asyncio.all_tasks() == {task}

    try:
        run_virtually(broker, main)
    except asyncio.CancelledError:
        assert interrupts[0].has_come
    assert not complaints, complaints
    return interrupts[0].has_come


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("life", "answers", "begin", "end"),
    [
        (read, OF_A_READER, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
        (write, OF_A_WRITER, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN),
    ],
    ids=["reader", "writer"],
)
def test_an_interrupt_at_any_moment_ends_a_client_and_what_it_had_begun_without_a_complaint(
    life: Life, answers: Answers, begin: ApiKey, end: ApiKey, step: int
) -> None:
    number = 0
    has_come = True
    while has_come:
        broker = ScriptedBroker(answers)
        has_come = interrupted(life, broker, number)
        assert broker.count(end) == 1 or not broker.count(begin), (number, broker.seen)
        number += step
    assert number > 500
