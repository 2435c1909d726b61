"""`oncelog copy` between two of our brokers: every record once, whatever fails, and groups at the same records."""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from oncelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog.faults import Action, ApiKey, ErrorCode, Point, Rule, Selector
from oncelog.testing import Broker
from oncelog.tools.copy import life
from oncelog.tools.copy.copying import Copier
from oncelog.tools.copy.state import topic_of
from oncelog.tools.copy.survey import CopyError, Side, Wish
from tests.support.logs.copies import Recorder, contents, copy, expected_offset, fill, placed
from tests.support.patience import PATIENCE_MS

pytestmark = pytest.mark.sampled(3)


@dataclass(frozen=True)
class Pair:
    source: Broker
    target: Broker

    @property
    def addresses(self) -> tuple[str, str]:
        return self.source.bootstrap_servers, self.target.bootstrap_servers

    @property
    def sides(self) -> tuple[Side, Side]:
        return Side(self.addresses[0]), Side(self.addresses[1])

    async def require_equal(self) -> None:
        source, target = [await contents(each) for each in self.addresses]
        assert target == source


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Broker() as source, Broker() as target:
        yield Pair(source, target)


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction for each Fetch, and Fetches of little."""
    monkeypatch.setattr(life, "_ROUND_BYTES", 1)
    monkeypatch.setattr("oncelog.tools.copy.copying._FETCH_BYTES", 2_000)
    monkeypatch.setattr("oncelog.tools.copy.copying._PAUSE_S", 0.01)


# --- what is copied ---------------------------------------------------------------------------------------------------


async def test_records_partitions_and_settings_are_as_on_the_source(pair: Pair) -> None:
    await fill(pair.source.bootstrap_servers, Random(1))
    await copy(*pair.addresses)
    await pair.require_equal()
    async with Admin(pair.addresses[0]) as source, Admin(pair.addresses[1]) as target:
        for name in ("mixed", "empty", "cut"):
            assert await target.describe_configs(topic=name) == await source.describe_configs(topic=name)
        (topic,) = await target.describe_topics("mixed")
        assert topic.partition_count == 3
        assert (await target.describe_configs(topic="stamped"))["message.timestamp.type"] == "CreateTime"


async def test_a_second_run_copies_only_what_is_new(pair: Pair) -> None:
    await fill(pair.source.bootstrap_servers, Random(2), transaction_count=3)
    await copy(*pair.addresses)
    pair.source.produce("mixed", b"new", partition=2)
    watcher = Recorder()
    await copy(*pair.addresses, watcher=watcher)
    assert watcher.record_count == 1
    await pair.require_equal()


async def test_a_compacted_topic_has_gaps_and_is_copied_with_what_is_left(pair: Pair) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.ms": 100}
    pair.source.create_topic("table", config=config)
    async with Producer(pair.addresses[0], linger_ms=50) as producer:
        for number in range(100):
            key = number % 7 if number < 90 else number
            await producer.send_soon("table", b"%d" % number, key=b"%d" % key)
        await producer.send_soon("table", None, key=b"3")
        await producer.flush()
        await producer.send("table", b"rolls", key=b"a segment", timestamp_ms=int(time.time() * 1000) + 50_000)
    while len(pair.source.records("table")) > 50:
        pair.source.clock.advance(20)
    await copy(*pair.addresses)
    await pair.require_equal()
    place = TopicPartition("table", 0)
    offsets = [offset for offset, _ in (await placed(pair.addresses[0]))[place]]
    gap = next(at for at in range(1, len(offsets)) if offsets[at] > offsets[at - 1] + 1)
    async with Admin(pair.addresses[0]) as admin:
        await admin.alter_group_offsets("readers", {place: offsets[gap] - 1})
    await copy(*pair.addresses)
    assert pair.target.committed("readers") == {place: gap}


async def test_topics_are_chosen_by_patterns_and_internal_ones_never(pair: Pair) -> None:
    for name in ("orders.eu", "orders.us", "orders.test", "__hidden"):
        pair.source.produce(name, b"1")
    wish = Wish(*([re.compile(text)] for text in (r"orders\..*|__.*", ".*test")))
    found = await Copier(*pair.sides, wish, Recorder()).preview()
    assert [plan.name for plan in found.topics] == ["__hidden", "orders.eu", "orders.us"]
    found = await Copier(*pair.sides, Wish(), Recorder()).preview()
    assert [plan.name for plan in found.topics] == ["orders.eu", "orders.test", "orders.us"]


async def test_a_dry_run_writes_nothing(pair: Pair) -> None:
    pair.source.produce("orders", b"1")
    await Copier(*pair.sides, Wish(), Recorder()).preview()
    async with Admin(pair.addresses[1]) as admin:
        assert await admin.list_topics(include_internal=True) == []


@pytest.mark.parametrize("is_aborted", [True, False])
async def test_an_open_transaction_is_waited_for(pair: Pair, is_aborted: bool) -> None:
    """A record that is committed behind it counts as committed at the start."""
    source, target = pair.addresses
    async with Producer(source, transactional_id="slow") as producer:
        transaction = producer.transaction()
        await transaction.__aenter__()
        await transaction.send("orders", b"open")
        pair.source.produce("orders", b"behind")
        copying = asyncio.ensure_future(copy(source, target))
        while not pair.target.topics():
            await asyncio.wait((copying,), timeout=0.01)
        assert pair.target.records("orders") == []
        await (transaction.abort() if is_aborted else transaction.commit())
        await copying
    expected = [b"behind"] if is_aborted else [b"open", b"behind"]
    assert [each.value for each in pair.target.records("orders")] == expected


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
async def test_any_request_and_any_answer_may_be_lost(pair: Pair, small_rounds: None, seed: int) -> None:
    """The copy survives the loss of the first or a later request or answer, of every kind that it makes, on both
    sides.
    """
    random = Random(seed)
    await fill(pair.source.bootstrap_servers, random)
    apis = {
        pair.source: (ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS),
        pair.target: (
            ApiKey.PRODUCE,
            ApiKey.END_TXN,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.METADATA,
            ApiKey.LIST_OFFSETS,
            ApiKey.FIND_COORDINATOR,
            ApiKey.FETCH,
            ApiKey.CREATE_TOPICS,
        ),
    }
    rules = [
        (broker, broker.faults.plant(Rule(point, Action.DROP, Selector(api=api), nth=random.randint(1, 9))))
        for broker, kinds in apis.items()
        for api in kinds
        for point in (Point.REQUEST, Point.ANSWER)
    ]
    await copy(*pair.addresses)
    fired_count = sum(broker.faults.status(number).fired_count for broker, number in rules)
    await pair.require_equal()
    assert fired_count > len(rules) / 2


@pytest.mark.parametrize("seed", range(3))
async def test_either_broker_may_lose_its_power_again_and_again(pair: Pair, small_rounds: None, seed: int) -> None:
    random = Random(seed)
    await fill(pair.source.bootstrap_servers, random)
    crashed = []

    def at_round(number: int) -> None:
        if random.random() < 0.3:
            crashed.append(random.choice((pair.source, pair.target)))
            crashed[-1].crash()
            crashed[-1].restart()

    await copy(*pair.addresses, watcher=Recorder(at_round))
    assert len(crashed) > 1
    await pair.require_equal()


@pytest.mark.parametrize("point", [Point.REQUEST, Point.ANSWER])
@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.END_TXN])
async def test_a_copy_that_ends_in_the_middle_of_a_transaction_is_continued(
    pair: Pair, small_rounds: None, api: ApiKey, point: Point
) -> None:
    """The first copy is not notified of its end: its task never runs again."""
    await fill(pair.source.bootstrap_servers, Random(6), transaction_count=4)
    held = pair.target.faults.plant(Rule(point, Action.HOLD, Selector(api=api), nth=4))
    dead = asyncio.ensure_future(copy(*pair.addresses))
    await asyncio.to_thread(pair.target.faults.wait_fired, held)
    alive = asyncio.ensure_future(copy(*pair.addresses))
    await asyncio.wait((alive,), timeout=0.05)
    pair.target.faults.release(held)
    await alive
    await asyncio.gather(dead, return_exceptions=True)
    await pair.require_equal()


async def test_a_second_copy_of_the_same_clusters_fences_the_first(pair: Pair) -> None:
    pair.source.produce("orders", b"1")
    watcher = Recorder()
    first = asyncio.ensure_future(copy(*pair.addresses, once=False, watcher=watcher))
    await watcher.copied.wait()
    await copy(*pair.addresses)
    pair.source.produce("orders", b"2")
    with pytest.raises(CopyError, match="another copy of the same two clusters has taken over"):
        await first
    await copy(*pair.addresses)
    await pair.require_equal()


async def test_a_copy_that_has_nothing_to_do_learns_too_that_it_was_fenced(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "_SIGN_S", 0.02)
    pair.source.produce("orders", b"1")
    watcher = Recorder()
    first = asyncio.ensure_future(copy(*pair.addresses, once=False, watcher=watcher))
    await watcher.copied.wait()
    await copy(*pair.addresses)
    with pytest.raises(CopyError, match="another copy of the same two clusters has taken over"):
        await first


# --- what ends a copy -------------------------------------------------------------------------------------------------


async def test_a_gap_at_the_source_is_said_with_its_offsets(pair: Pair) -> None:
    for number in range(10):
        pair.source.produce("orders", b"%d" % number)
        if number == 3:
            await copy(*pair.addresses)
    async with Admin(pair.addresses[0]) as admin:
        await admin.delete_records({TopicPartition("orders", 0): 7})
    with pytest.raises(CopyError, match=r"orders-0: offsets 4 to 6 were deleted on the source"):
        await copy(*pair.addresses)
    assert len(pair.target.records("orders")) == 4


async def test_a_gap_before_the_first_record_that_is_copied_is_one_too(pair: Pair) -> None:
    """A partition that was empty when it was seen first has a position."""
    pair.source.create_topic("orders")
    await copy(*pair.addresses)
    for number in range(3):
        pair.source.produce("orders", b"%d" % number)
    async with Admin(pair.addresses[0]) as admin:
        await admin.delete_records({TopicPartition("orders", 0): 2})
    with pytest.raises(CopyError, match=r"orders-0: offsets 0 to 1 were deleted on the source"):
        await copy(*pair.addresses)


async def test_a_gap_that_appears_while_the_copy_follows_ends_it(pair: Pair) -> None:
    place = TopicPartition("orders", 0)
    pair.source.produce("orders", b"1")
    watcher = Recorder()
    following = asyncio.ensure_future(copy(*pair.addresses, once=False, watcher=watcher))
    await watcher.copied.wait()
    held = pair.source.faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.FETCH), times=None))
    await asyncio.to_thread(pair.source.faults.wait_fired, held)
    for number in range(5):
        pair.source.produce("orders", b"%d" % number)
    async with Admin(pair.addresses[0]) as admin:
        await admin.delete_records({place: 4})
    pair.source.faults.remove(held)
    with pytest.raises(CopyError, match="orders-0: offsets 1 to 3 were deleted on the source"):
        await following


async def test_what_is_deleted_of_aborted_transactions_is_no_gap(pair: Pair) -> None:
    """Only positions move, and they are stored."""
    pair.source.produce("orders", b"1")
    await copy(*pair.addresses)
    async with Producer(pair.addresses[0], transactional_id="aborter") as producer:
        transaction = producer.transaction()
        await transaction.__aenter__()
        await transaction.send("orders", b"never")
        await transaction.abort()
    await copy(*pair.addresses)
    async with Admin(pair.addresses[0]) as admin:
        await admin.delete_records({TopicPartition("orders", 0): 3})
    pair.source.produce("orders", b"2")
    await copy(*pair.addresses)
    assert [each.value for each in pair.target.records("orders")] == [b"1", b"2"]


@pytest.mark.parametrize("is_following", [False, True])
async def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(pair: Pair, is_following: bool) -> None:
    pair.source.produce("orders", b"old")
    watcher = Recorder()
    following = asyncio.ensure_future(copy(*pair.addresses, once=not is_following, watcher=watcher))
    await (watcher.copied.wait() if is_following else following)
    async with Admin(pair.addresses[0]) as admin:
        await admin.delete_topics("orders")
        await admin.create_topics("orders")
    for number in range(3):
        pair.source.produce("orders", b"new %d" % number)
    with pytest.raises(CopyError, match=r"orders was deleted and created again on the source|deleted on the source"):
        await (following if is_following else copy(*pair.addresses))
    assert [each.value for each in pair.target.records("orders")] == [b"old"]


async def test_partitions_and_topics_that_are_added_are_added_on_the_target(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "_LOOK_S", 0.05)
    pair.source.produce("orders", b"1")
    watcher = Recorder()
    following = asyncio.ensure_future(copy(*pair.addresses, once=False, watcher=watcher))
    await watcher.copied.wait()
    async with Admin(pair.addresses[0]) as admin:
        await admin.create_partitions({"orders": 3})
    pair.source.produce("orders", b"2", partition=2)
    pair.source.produce("others", b"3")
    while watcher.record_count < 3:
        await asyncio.wait((following,), timeout=0.02)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await pair.require_equal()


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        ("other records", "orders-0 has a record on the target, at offset 0, that this copy has not written"),
        ("fewer partitions", "orders has 2 partitions, on the target 1"),
        ("more partitions", "orders has 2 partitions, on the target 3"),
    ],
)
async def test_a_topic_that_is_something_else_on_the_target_is_refused(pair: Pair, there: str, sentence: str) -> None:
    """Nothing is written to any topic."""
    pair.source.create_topic("orders", partitions=2)
    pair.source.produce("harmless", b"1")
    count = {"other records": 2, "fewer partitions": 1, "more partitions": 3}[there]
    pair.target.create_topic("orders", partitions=count)
    if there == "other records":
        pair.target.produce("orders", b"foreign", partition=0)
    with pytest.raises(CopyError, match=sentence):
        await copy(*pair.addresses)
    async with Admin(pair.addresses[1]) as admin:
        assert await admin.list_topics() == ["orders"]
    assert pair.target.transactions() == []


async def test_another_writer_to_the_target_ends_the_copy(pair: Pair, small_rounds: None) -> None:
    pair.source.produce("orders", b"1")
    watcher = Recorder()
    following = asyncio.ensure_future(copy(*pair.addresses, once=False, watcher=watcher))
    await watcher.copied.wait()
    pair.target.produce("orders", b"foreign")
    pair.source.produce("orders", b"2")
    with pytest.raises(CopyError, match="orders-0 has a record on the target, at offset 2, that this copy has not"):
        await following
    assert [each.value for each in pair.target.records("orders")] == [b"1", b"foreign"]


async def test_a_topic_that_was_deleted_on_the_target_is_copied_once_more(pair: Pair) -> None:
    for number in range(3):
        pair.source.produce("orders", b"%d" % number)
    await copy(*pair.addresses)
    async with Admin(pair.addresses[1]) as admin:
        await admin.delete_topics("orders")
    await copy(*pair.addresses)
    await pair.require_equal()


async def test_settings_that_the_target_does_not_take_are_said_with_a_way_on(pair: Pair) -> None:
    """The other topics wait: one that is left out silently would be missed after a switch-over."""
    pair.source.create_topic("orders", config={"retention.ms": 5_000})
    pair.source.produce("orders", b"1")
    error = Rule(Point.ANSWER, Action.ERROR, Selector(api=ApiKey.CREATE_TOPICS), error=ErrorCode.INVALID_CONFIG)
    pair.target.faults.plant(error)
    with pytest.raises(CopyError, match=r"orders cannot be created on the target: .*Create it there yourself, empty"):
        await copy(*pair.addresses)
    await copy(*pair.addresses)  # it was created, and is empty
    await pair.require_equal()


async def test_a_transaction_that_stays_open_is_said_and_can_be_ended(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's coordinator may forget one that it has acknowledged, when it is killed."""
    monkeypatch.setattr("oncelog.tools.copy.copying._HANGING_S", 0)
    pair.source.produce("orders", b"1")
    await copy(*pair.addresses)
    async with Admin(pair.addresses[0]) as source, Producer(pair.addresses[1], transactional_id="other") as other:
        topic = topic_of((await source.describe_cluster()).cluster_id or "")
        transaction = other.transaction()
        await transaction.__aenter__()
        await transaction.send(topic, b"{}", key=b"[]")
        with pytest.raises(
            CopyError, match=r"hangs on the target, in __oncelog_copy.*-0 at offset \d+.*oncelog txn abort"
        ):
            await copy(*pair.addresses)
        await transaction.abort()
    pair.source.produce("orders", b"2")
    await copy(*pair.addresses)
    await pair.require_equal()


async def test_a_cluster_is_not_copied_to_itself(pair: Pair) -> None:
    with pytest.raises(CopyError, match="source and target are the same cluster"):
        await copy(pair.addresses[0], pair.addresses[0])


# --- groups, switch-over ----------------------------------------------------------------------------------------------


async def test_each_offset_of_a_group_is_translated_to_the_same_record(pair: Pair, small_rounds: None) -> None:
    """Compared with both logs, for every offset that there is, by as many groups."""
    await fill(pair.source.bootstrap_servers, Random(7), transaction_count=6)
    await copy(*pair.addresses)
    source, target = [await placed(each) for each in pair.addresses]
    async with Admin(pair.addresses[0]) as admin:
        ends = {place: each.offset for place, each in (await admin.list_offsets(source)).items()}
        for offset in range(max(ends.values()) + 1):
            offsets = {place: min(offset, end) for place, end in ends.items()}
            await admin.alter_group_offsets(f"group-{offset}", offsets)
    await copy(*pair.addresses)
    for offset in range(max(ends.values()) + 1):
        expected = {place: expected_offset(source[place], target[place], min(offset, ends[place])) for place in source}
        assert pair.target.committed(f"group-{offset}") == expected


async def test_offsets_on_the_target_never_move_back_until_the_switch_over(pair: Pair) -> None:
    place = TopicPartition("orders", 0)
    for number in range(5):
        pair.source.produce("orders", b"%d" % number)
    async with Admin(pair.addresses[0]) as source, Admin(pair.addresses[1]) as target:
        await source.alter_group_offsets("readers", {place: 3})
        await copy(*pair.addresses)
        assert pair.target.committed("readers") == {place: 3}
        await target.alter_group_offsets("readers", {place: 5})
        await copy(*pair.addresses)
        assert pair.target.committed("readers") == {place: 5}
        await copy(*pair.addresses, once=False, switch=True)
        assert pair.target.committed("readers") == {place: 3}


async def test_a_switch_over_has_what_was_written_until_the_clients_stopped_and_is_final(pair: Pair) -> None:
    await fill(pair.source.bootstrap_servers, Random(8), transaction_count=3)

    async def stop() -> None:
        await asyncio.to_thread(pair.source.produce, "mixed", b"last", partition=2)

    outcome = await copy(*pair.addresses, once=False, switch=True, watcher=Recorder(stopped=stop))
    await pair.require_equal()
    assert outcome.hold_s is not None
    async with Admin(pair.addresses[1]) as admin:
        assert (await admin.describe_configs(topic="stamped"))["message.timestamp.type"] == "LogAppendTime"
    with pytest.raises(CopyError, match="a switch-over has ended this copy"):
        await copy(*pair.addresses)


async def test_groups_that_have_members_are_named(pair: Pair) -> None:
    """Groups on the target are left alone; those on the source should have been stopped."""
    place = TopicPartition("orders", 0)
    pair.source.produce("orders", b"1")
    await copy(*pair.addresses)
    async with contextlib.AsyncExitStack() as stack:
        for address, group in zip(pair.addresses, ("there", "here"), strict=True):
            reader = Consumer(
                "orders",
                bootstrap_servers=address,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await stack.enter_async_context(reader)
            assert await reader.poll(PATIENCE_MS)
            if group == "there":
                await reader.commit_sync()
        async with Admin(pair.addresses[0]) as admin:
            await admin.alter_group_offsets("here", {place: 1})
        outcome = await copy(*pair.addresses, once=False, switch=True)
    assert {each.group_id: each.note for each in outcome.groups} == {
        "there": "has members on the source, and may commit more",
        "here": "has members on the target: left alone",
    }
    assert pair.target.committed("here") == {}


async def test_a_source_that_is_still_written_to_is_not_switched(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.source.produce("orders", b"1")
    original = life.Life.copy_groups

    async def while_written(self: life.Life, *, is_final: bool) -> object:
        await asyncio.to_thread(pair.source.produce, "orders", b"late")
        return await original(self, is_final=is_final)

    monkeypatch.setattr(life.Life, "copy_groups", while_written)
    with pytest.raises(CopyError, match="the source is still written to, in orders-0"):
        await copy(*pair.addresses, once=False, switch=True)
    monkeypatch.setattr(life.Life, "copy_groups", original)
    await copy(*pair.addresses, once=False, switch=True)
    await pair.require_equal()


async def test_the_way_back_copies_into_the_other_cluster_with_a_state_of_its_own(pair: Pair) -> None:
    """The topics of copies are never copied themselves."""
    pair.source.produce("there", b"1")
    pair.target.produce("back", b"2")
    await copy(*pair.addresses)
    found = await Copier(*reversed(pair.sides), Wish(), Recorder()).preview()  # type: ignore[arg-type]
    assert [plan.name for plan in found.topics] == ["back", "there"]
    assert topic_of(found.target_cluster_id) in pair.target.topics()


async def test_new_topics_have_no_name_that_a_copy_takes(pair: Pair) -> None:
    async with Admin(pair.addresses[0]) as admin:
        await admin.create_topics(NewTopic("__oncelog_copy.x"))
    found = await Copier(*pair.sides, Wish((re.compile(".*"),)), Recorder()).preview()
    assert found.topics == ()
