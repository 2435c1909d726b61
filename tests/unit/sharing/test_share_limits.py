"""What limits a share consumer: its rights, its quota, the feature, and how much one request may take of the broker."""

import pytest

from oncelog.broker.log.values import FetchIsolation
from oncelog.broker.security.principal import parse_principal
from oncelog.broker.sharing import fetch
from oncelog.broker.sharing.partition_life import Reading, SharePartitionLife
from oncelog.broker.turns import slices
from oncelog.protocol.acls import AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog.protocol.generated.create_acls_request import AclCreation, CreateAclsRequest
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.clients.share_member import ACCEPT, ShareMember, acquired, errors
from tests.unit.sharing.world import GROUP, LOCK_MS, TOPIC, World, reading

_AUTHORIZED = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
_UNSAFE_DOWNGRADE, _UPGRADE = 3, 1


def allow(world: World, resource: ResourceType, name: str) -> None:
    entry = AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=Permission.ALLOW,
    )
    (result,) = world.broker.ask(CreateAclsRequest(creations=[entry]), 3).results
    assert result.error_code == ErrorCode.NONE


def alice(world: World) -> ShareMember:
    member = world.member("alice")
    member.peer.principal = parse_principal("User:alice")
    return member


def test_a_member_needs_to_read_its_group_and_each_topic() -> None:
    """A missing right on the group refuses the request, a missing right on a topic refuses its partitions."""
    world = World(*_AUTHORIZED)
    world.append(2)
    member = alice(world)
    assert member.fetch(world.keys).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert member.acknowledge({}).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(world, ResourceType.GROUP, GROUP)
    assert errors(member.fetch(world.keys)) == {world.keys[0]: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    denied = member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    assert errors(denied) == {world.keys[0]: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    allow(world, ResourceType.TOPIC, TOPIC)
    assert acquired(member.fetch()) == {world.keys[0]: [(0, 1, 1)]}
    assert errors(member.acknowledge({world.keys[0]: [(0, 1, [ACCEPT])]})) == {world.keys[0]: ErrorCode.NONE}


def test_a_group_that_may_not_be_read_is_not_distinguished_from_one_without_an_id() -> None:
    """Kafka too looks at the id first."""
    world = World(*_AUTHORIZED)
    assert alice(world).fetch(world.keys, group_id=None).error_code == ErrorCode.INVALID_REQUEST


def test_the_records_of_a_share_consumer_count_for_its_quota() -> None:
    """One response has no more than the quota allows for in ten seconds, and says how long to wait."""
    world = World()
    for _ in range(10):
        world.append(1, value=b"x" * 10_000)
    entity = [EntityData(entity_type="user", entity_name=None)]
    ops = [OpData(key="consumer_byte_rate", value=3_000.0)]
    answer = world.broker.ask(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)]), 1)
    assert [entry.error_code for entry in answer.entries] == [0]
    member = world.member()
    first, second = member.fetch(world.keys), member.fetch()
    assert acquired(first) == {world.keys[0]: [(0, 1, 1)]}
    assert acquired(second) == {world.keys[0]: [(2, 3, 1)]}
    assert (first.throttle_time_ms, second.throttle_time_ms > 0) == (0, True)


def test_without_the_feature_there_are_no_share_groups() -> None:
    """Sessions and locks end with it, and do not come back when it is enabled again."""
    world, member = reading()
    set_share_version(world, 0, _UNSAFE_DOWNGRADE)
    assert member.fetch().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert member.acknowledge({}).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not world.manager.partition_count and not len(world.manager.sessions)
    set_share_version(world, 1, _UPGRADE)
    assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.epoch = 0
    assert acquired(member.fetch(world.keys)) == {world.keys[0]: [(0, 0, 2)]}


def set_share_version(world: World, level: int, upgrade_type: int) -> None:
    update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=upgrade_type)
    answer = world.broker.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.interpreted
def test_a_request_for_many_partitions_makes_no_other_request_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted in slices, in several turns, and every one is served."""
    monkeypatch.setattr(slices, "ELEMENTS_A_TURN", 20)
    monkeypatch.setattr(slices, "_LEFT_TO_NEW_WORK", 10)
    world = World(partitions=12)
    for index in range(12):
        world.append(1, index)
    member = world.member()
    reply = member.start_fetch(world.keys, settles=False, max_wait_ms=500, min_bytes=10_000)
    turns = 0
    while world.manager.partition_count < 12:
        turns += world.broker.time.turn()
    assert turns > 3 and not reply.is_there
    world.let_pass(500)
    assert list(acquired(reply.message)) == world.keys


@pytest.mark.interpreted
def test_a_client_may_leave_while_its_partitions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for it any more."""
    monkeypatch.setattr(slices, "ELEMENTS_A_TURN", 20)
    monkeypatch.setattr(slices, "_LEFT_TO_NEW_WORK", 10)
    world = World(partitions=12)
    member = world.member()
    member.start_fetch(world.keys, settles=False, max_wait_ms=500)
    world.broker.time.turn()
    assert 0 < world.manager.partition_count < 12
    member.disconnect()
    assert not world.broker.broker.slices.elements_held and not world.manager.partition_count
    for index in range(12):
        world.append(1, index)
    assert len(acquired(world.member("other").fetch(world.keys))) == 12


@pytest.mark.interpreted
@pytest.mark.parametrize("turns", range(16))
@pytest.mark.parametrize("epoch", [-1, 2])
def test_a_session_may_move_on_while_a_request_is_in_slices(
    monkeypatch: pytest.MonkeyPatch, epoch: int, turns: int
) -> None:
    """A request that is overtaken, or whose session is closed, acquires nothing and leaves nothing in use."""
    monkeypatch.setattr(slices, "ELEMENTS_A_TURN", 4)
    monkeypatch.setattr(slices, "_LEFT_TO_NEW_WORK", 2)
    world = World(partitions=12)
    member = world.member()
    member.fetch(world.keys)
    for index in range(12):
        world.append(1, index)
    reply = member.start_fetch(settles=False)
    for _ in range(turns):
        world.broker.time.turn()
    if reply.is_there:
        return
    twin = world.member()
    twin.acknowledge({}, share_session_epoch=epoch)
    assert reply.message.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    if epoch == -1:
        assert not world.manager.partition_count
    else:
        assert len(acquired(member.fetch(share_session_epoch=3))) == 12


@pytest.mark.interpreted
def test_one_response_has_records_of_so_many_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins with the others."""
    monkeypatch.setattr(fetch, "_MOST_READ", 2)
    world = World(partitions=6)
    for index in range(6):
        world.append(1, index)
    member = world.member()
    got = [list(acquired(member.fetch(world.keys if number == 0 else ()))) for number in range(3)]
    assert [len(keys) for keys in got] == [2, 2, 2]
    assert sorted(key for keys in got for key in keys) == world.keys


@pytest.mark.interpreted
def test_at_the_end_of_a_wait_only_what_has_moved_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may have thousands of partitions; all are in its first response, though."""
    world = World(partitions=12)
    member = world.member()
    reply = member.start_fetch(world.keys, max_wait_ms=500, min_bytes=10_000)
    looked: list[object] = []
    plan = SharePartitionLife.plan

    def noted(life: SharePartitionLife, isolation: FetchIsolation) -> Reading | None:
        looked.append(life.key.partition)
        return plan(life, isolation)

    monkeypatch.setattr(SharePartitionLife, "plan", noted)
    world.append(1, 7)
    world.let_pass(500)
    assert set(looked) == {7}
    assert sorted(errors(reply.message)) == world.keys
    assert acquired(reply.message) == {world.keys[7]: [(0, 0, 1)]}


@pytest.mark.parametrize("batch_count", [19_000, 21_000])
def test_a_request_has_so_many_acknowledgements_at_most(batch_count: int) -> None:
    """The acknowledgements of a partition are made in one turn: a client that sends more than any needs is cut off."""
    world, member = reading(1)
    batches = [(0, 0, [ACCEPT])] * batch_count
    for reply in (
        member.start_acknowledge({world.keys[0]: batches}),
        member.start_fetch(acknowledged={world.keys[0]: batches}, share_session_epoch=2),
    ):
        if batch_count > 20_000:
            with pytest.raises(AssertionError, match="more than 20,000 elements"):
                _ = reply.message
        else:
            assert reply.message.error_code == ErrorCode.NONE


@pytest.mark.interpreted
def test_one_response_acquires_so_many_records_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next response acquires the others, whatever the request asks for."""
    monkeypatch.setattr(fetch, "_MOST_RECORDS", 3)
    world = World(partitions=3)
    for index in range(3):
        world.append(2, index)
    member = world.member()
    got = [acquired(member.fetch(world.keys if number == 0 else (), max_records=2**31 - 1)) for number in range(2)]
    assert [len(keys) for keys in got] == [2, 1]


def test_idle_share_partitions_have_no_timers() -> None:
    """One timer for the locks of a partition, and none once they are gone."""
    world = World()
    idle = world.broker.time.timer_count
    world.append(3)
    member = world.member()
    member.fetch(world.keys)
    assert world.broker.time.timer_count == idle + 1
    member.acknowledge({world.keys[0]: [(0, 2, [ACCEPT])]})
    world.let_pass(LOCK_MS)
    assert world.broker.time.timer_count == idle
