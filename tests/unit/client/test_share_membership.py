"""A share consumer as a member of its group: how it joins, is fenced, and leaves."""

import pytest

from oncelog.client import FatalError, InvalidState, ShareConsumer
from oncelog.client.sharing.acknowledgements import ACCEPT
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from tests.fakes.scripted_answers import TOPIC
from tests.fakes.share_leader import HEARTBEAT_S, LEAVING_EPOCH, ShareLeader, records
from tests.fakes.virtual_loop import pass_time, virtually
from tests.unit.client.test_share_consumer import OPTIONS, OTHER, PLACE, REQUEST_S, SOON_MS, offsets, types

POLL_S = 300
"""max.poll.interval.ms, by default."""


@virtually
async def test_a_partition_that_goes_is_forgotten_and_its_records_can_still_be_acknowledged() -> None:
    leader = ShareLeader(partitions=2)
    leader.deliveries.append([records(0, 1, partition=1)])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        assert offsets(await consumer.poll(SOON_MS)) == [0]
        assert consumer.assignment() == [PLACE, OTHER]
        leader.assigned = [0]
        await pass_time(HEARTBEAT_S)
        assert consumer.assignment() == [PLACE]
        await consumer.poll(SOON_MS)
        assert leader.take_said() == types(ACCEPT, 0, partition=1)
        assert [list(each.partitions) for each in leader.fetches[-1].forgotten_topics_data or ()] == []
        forgotten = [each.partitions for request in leader.fetches for each in request.forgotten_topics_data]
        assert [list(each) for each in forgotten] == [[1]]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
@virtually
async def test_a_fenced_member_has_nothing_until_it_has_joined_again_under_its_old_id(code: ErrorCode) -> None:
    leader = ShareLeader()
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        leader.broker.seen.clear()
        leader.heartbeat_errors.append(code)
        await pass_time(HEARTBEAT_S)
        assert leader.member_epochs == [1, 0]
        assert consumer.assignment() == [PLACE]
        assert len({each.member_id for each in leader.requests(ApiKey.SHARE_GROUP_HEARTBEAT)}) == 1


@virtually
async def test_a_member_that_does_not_poll_leaves_and_joins_again_with_the_next_poll() -> None:
    leader = ShareLeader()
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        await pass_time(POLL_S + HEARTBEAT_S)
        assert leader.member_epochs[-1] == LEAVING_EPOCH
        assert consumer.assignment() == []
        leader.deliveries.append([records(0, 1)])
        assert offsets(await consumer.poll(SOON_MS)) == [0]


@virtually
async def test_a_coordinator_that_has_no_share_groups_is_named_with_what_to_do() -> None:
    leader = ShareLeader()
    leader.heartbeat_errors.append(ErrorCode.UNSUPPORTED_VERSION)
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        with pytest.raises(FatalError, match=r"share\.version"):
            await consumer.poll(SOON_MS)


@virtually
async def test_after_a_lost_heartbeat_the_next_one_says_everything_and_gets_the_assignment() -> None:
    leader = ShareLeader(partitions=2)
    leader.assigned = [0]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        leader.assigned = [0, 1]
        leader.broker.withheld["host"] = {ApiKey.SHARE_GROUP_HEARTBEAT}
        await pass_time(HEARTBEAT_S)
        leader.broker.withheld.clear()
        await pass_time(REQUEST_S + HEARTBEAT_S)
        assert consumer.assignment() == [PLACE, OTHER]


@virtually
async def test_without_topics_a_member_leaves_and_with_others_it_says_so_at_once() -> None:
    leader = ShareLeader()
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        consumer.subscribe()
        await pass_time(1)
        assert leader.member_epochs[-1] == LEAVING_EPOCH
        with pytest.raises(InvalidState, match="nothing to read"):
            await consumer.poll()
        consumer.subscribe(TOPIC)
        await consumer.poll(SOON_MS)
        assert consumer.assignment() == [PLACE]
