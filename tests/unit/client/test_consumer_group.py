"""A member of a consumer group (KIP-848) whose requests to leave get no response."""

import asyncio
import uuid
from typing import Any

from oncelog.client import Consumer, ConsumerOptions, TopicPartition
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.fakes.scripted_answers import OF_A_MEMBER, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

PLACE = TopicPartition(TOPIC, 0)
TOPIC_ID = uuid.UUID(int=1)
OPTIONS = ConsumerOptions(bootstrap_servers="host:1", group_id="group", group_protocol="consumer")
HEARTBEAT_S = 3
POLL_S = 300
"""max.poll.interval.ms, by default."""
REQUEST_S = 30
"""request.timeout.ms, by default."""
SOON_S = 1
JOINING_EPOCH, LEAVING_EPOCH = 0, -1


def metadata(_: Any) -> MetadataResponse:
    led = [MetadataResponsePartition(partition_index=0, leader_id=0)]
    topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=led)
    return MetadataResponse(brokers=[MetadataResponseBroker(0, "host", 1)], topics=[topic])


def heartbeat(request: Any) -> ConsumerGroupHeartbeatResponse | None:
    """The response to a heartbeat; a heartbeat that leaves the group gets none."""
    if request.member_epoch == LEAVING_EPOCH:
        return None
    assignment = Assignment([TopicPartitions(TOPIC_ID, [0])]) if request.member_epoch == JOINING_EPOCH else None
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=1, heartbeat_interval_ms=HEARTBEAT_S * 1_000, assignment=assignment
    )


def broker_of_a_member() -> ScriptedBroker:
    return ScriptedBroker({**OF_A_MEMBER, ApiKey.METADATA: metadata, ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeat})


def epochs(broker: ScriptedBroker) -> list[int]:
    return [request.member_epoch for key, request in broker.seen if key is ApiKey.CONSUMER_GROUP_HEARTBEAT]


async def read_until_assigned(consumer: Consumer, count: int) -> None:
    async with asyncio.timeout(REQUEST_S * 2):
        while consumer.assignment_count < count:
            await consumer.poll(100)


@virtually
async def test_a_member_that_polls_while_it_leaves_loses_its_partitions_at_once_and_joins_again_once() -> None:
    """A second run under the same member id would join while the coordinator still handles its request to leave."""
    broker = broker_of_a_member()
    lost: list[TopicPartition] = []
    async with Consumer(TOPIC, **OPTIONS, on_lost=lost.extend) as consumer:
        await read_until_assigned(consumer, 1)
        await pass_time(POLL_S + HEARTBEAT_S)
        assert epochs(broker)[-1] == LEAVING_EPOCH
        broker.seen.clear()
        await consumer.poll(SOON_S * 1_000)
        assert lost == [PLACE]
        assert consumer.assignment() == []
        assert epochs(broker) == []
        await read_until_assigned(consumer, 2)
        await consumer.poll(REQUEST_S * 2_000)
        assert epochs(broker).count(JOINING_EPOCH) == 1
        assert lost == [PLACE]
        assert consumer.assignment() == [PLACE]


@virtually
async def test_a_member_that_is_closed_while_it_leaves_for_its_silence_asks_once_more_and_leaves_no_task() -> None:
    """The first request may not have reached the coordinator."""
    broker = broker_of_a_member()
    async with Consumer(TOPIC, **OPTIONS) as consumer:
        await read_until_assigned(consumer, 1)
        await pass_time(POLL_S + HEARTBEAT_S)
        assert epochs(broker)[-1] == LEAVING_EPOCH
        broker.seen.clear()
    assert epochs(broker) == [LEAVING_EPOCH]
    assert asyncio.all_tasks() == {asyncio.current_task()}
