"""Which records of a share group fail, and what is shown of a group: counts, their bounds, and no false ones."""

import asyncio
import json
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.admin.messages import AdminRequest, Response
from oncelog.broker.admin.metrics_routes import MetricsRoutes
from oncelog.broker.admin.routes import Routes
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.sharing.failures import MOST_PARTITIONS, MOST_RECORDS, FailedDeliveries, FailedRecord
from oncelog.broker.sharing.values import ACKNOWLEDGED, ARCHIVED, AVAILABLE, AcknowledgementBatch, Run
from oncelog.protocol.errors import ErrorCode
from tests.clients.share_member import ACCEPT, REJECT, RELEASE, errors
from tests.fakes.broker import VirtualBroker
from tests.unit.sharing.world import GROUP, LOCK_MS, TOPIC, World, reading

GAP = 0


def shown(world: World, group: str = GROUP, *, admin: bool = False) -> list[Any]:
    """The group's share-partitions as the HTTP port shows them."""
    broker = world.broker
    routes: Any = Routes(broker.faults) if admin else MetricsRoutes(broker.broker, None)  # type: ignore[arg-type]

    async def ask() -> Response:
        asking = asyncio.create_task(routes.serve(AdminRequest("GET", ("share-groups", group))))
        while not asking.done():
            broker.time.settle()
            await asyncio.sleep(0)
        response: Response = asking.result()
        return response

    answer = asyncio.run(ask())
    assert answer.status == 200
    values = json.loads(answer.body)
    assert values["group"] == group
    partitions: list[Any] = values["partitions"]
    return partitions


def failed(world: World) -> list[tuple[int, int, int, int, bool]]:
    """The failed records of the one partition: offset, released, lost, rejected, archived."""
    (partition,) = shown(world)
    return [tuple(each.values()) for each in partition["failed"]]


# --- what is in flight ------------------------------------------------------------------------------------------------


def test_a_share_partition_is_shown_with_its_offsets_and_delivery_counts() -> None:
    """Acquired and available records in flight have a count of deliveries; done ones only their number."""
    world, member = reading(6)
    member.acknowledge({world.keys[0]: [(0, 3, [ACCEPT, RELEASE, ACCEPT, RELEASE])]})
    member.fetch(max_records=1, share_acquire_mode=1)
    for is_admin in (False, True):
        (partition,) = shown(world, admin=is_admin)
        assert partition == {
            "topic": TOPIC,
            "partition": 0,
            "is_in_use": True,
            "start_offset": 1,
            "end_offset": 5,
            "in_flight": 5,
            "acquired": 3,
            "available": 1,
            "delivery_complete": 1,
            "delivery_counts": {"1": 3, "2": 1},
            "failed": [],
        }


def test_the_partitions_of_a_group_are_in_order_and_those_of_others_are_not_among_them() -> None:
    """Each group has its own."""
    world = World(partitions=3)
    world.member().fetch(reversed(world.keys))
    assert [each["partition"] for each in shown(world)] == [0, 1, 2]
    assert shown(world, "another") == []


def test_a_broker_that_shares_nothing_makes_nothing_for_the_question() -> None:
    """It is answered with no partitions."""
    world = World()
    world.broker = VirtualBroker("oncelog.storage=memory")
    assert shown(world) == []
    assert world.broker.broker.sharing_when_needed.known is None


# --- what fails -------------------------------------------------------------------------------------------------------


def test_the_record_that_fails_most_comes_first() -> None:
    """Released and lost deliveries count, and the end of a record is shown."""
    world = World()
    world.configure(share_delivery_count_limit="3")
    world.append(3)
    member = world.member()
    member.fetch(world.keys)
    member.acknowledge({world.keys[0]: [(0, 2, [RELEASE, ACCEPT, REJECT])]})
    assert failed(world) == [(2, 0, 0, 1, True)]
    member.fetch()
    world.let_pass(LOCK_MS)
    assert failed(world) == [(0, 1, 1, 0, False), (2, 0, 0, 1, True)]
    member.fetch()
    member.acknowledge({world.keys[0]: [(0, 0, [RELEASE])]})
    assert failed(world) == [(0, 2, 1, 0, True), (2, 0, 0, 1, True)]


def test_failures_outlive_the_session_of_the_member_that_fails() -> None:
    """A member that crashes at a record takes the share-partition out of use; the next one crashes there too."""
    world = World()
    world.append(1)
    for number in range(2):
        member = world.member(f"member-{number}")
        member.fetch(world.keys)
        member.disconnect()
    assert not world.manager.partition_count
    (partition,) = shown(world)
    assert (partition["is_in_use"], len(partition["failed"])) == (False, 1)
    assert failed(world) == [(0, 0, 2, 0, False)]


def test_nothing_fails_where_members_accept_or_come_and_go() -> None:
    """A record that has come back once, with its member, is no failure, and a gap is no record."""
    world = World()
    world.append(4)
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    first.acknowledge({world.keys[0]: [(0, 1, [ACCEPT, GAP])]})
    first.close()
    second.fetch(world.keys)
    second.acknowledge({world.keys[0]: [(2, 3, [ACCEPT])]})
    assert failed(world) == []


def test_a_refused_acknowledgement_is_no_failure() -> None:
    """Neither of records that the member does not hold, nor of those whose state cannot be written."""
    world = World()
    world.append(1)
    member, other = world.member(), world.member("other")
    member.fetch(world.keys)
    other.fetch(world.keys)
    rejected = {world.keys[0]: [(0, 0, [REJECT])]}
    assert errors(other.acknowledge(rejected)) == {world.keys[0]: ErrorCode.INVALID_RECORD_STATE}
    world.states.refusal = ErrorCode.NOT_COORDINATOR
    assert errors(member.acknowledge(rejected)) == {world.keys[0]: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert failed(world) == []


KEY = SharePartitionKey(GROUP, UUID(int=1), 0)
_LENGTHS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from((ACCEPT, RELEASE, REJECT))), min_size=1, max_size=8)


@given(acknowledgements=st.lists(_LENGTHS, max_size=6), in_one=st.booleans())
def test_each_record_is_counted_by_its_own_type(acknowledgements: list[list[tuple[int, int]]], in_one: bool) -> None:
    """Whether the types of an acknowledgement are in one batch or each in a batch of its own."""
    failures = FailedDeliveries()
    expected: dict[int, list[int]] = {}
    for pieces in acknowledgements:
        batches, runs, types, offset = [], [], [], 0
        for count, acknowledge_type in pieces:
            state = {ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}[acknowledge_type]
            last_offset = offset + count - 1
            runs.append(Run(offset, last_offset, state, 1))
            batches.append(AcknowledgementBatch(offset, last_offset, [acknowledge_type]))
            types += [acknowledge_type] * count
            if acknowledge_type != ACCEPT:
                for each in range(offset, offset + count):
                    counts = expected.setdefault(each, [0, 0, 0])
                    counts[0 if acknowledge_type == RELEASE else 1] += 1
                    counts[2] = int(acknowledge_type == REJECT)
            offset += count
        if in_one:
            batches = [AcknowledgementBatch(0, offset - 1, types)]
        failures.on_acknowledged(KEY, batches, runs)
    found = {each.offset: [each.released, each.rejected, int(each.is_archived)] for each in failures.worst(KEY, 100)}
    assert found == {offset: each for offset, each in expected.items() if each[2] or each[0] + each[1] > 1}


def test_the_records_that_fail_least_make_way() -> None:
    """A record that fails again and again stays, however many others come back meanwhile."""
    failures = FailedDeliveries()
    for number in range(20):
        failures.on_lost(KEY, [Run(7, 7, AVAILABLE, 1)])
        first = 1_000 * (number + 1)
        failures.on_lost(KEY, [Run(first, first + 499, AVAILABLE, 1)])
    assert failures.worst(KEY, 5) == [FailedRecord(7, 0, 20, 0, is_archived=False)]
    assert len(failures._partitions[KEY]) <= 2 * MOST_RECORDS


def test_the_share_partitions_that_have_failed_least_recently_make_way() -> None:
    """All groups together have one bound."""
    failures = FailedDeliveries()
    for number in range(MOST_PARTITIONS + 10):
        failures.on_lost(KEY._replace(partition=number), [Run(0, 0, ARCHIVED, 5)])
    assert [each.partition for each in failures.keys(GROUP)] == list(range(10, MOST_PARTITIONS + 10))
