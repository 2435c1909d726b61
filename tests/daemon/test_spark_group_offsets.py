"""What `commitGroup` commits, and what it refuses; no Spark is started."""

from collections.abc import Mapping

import pytest

from oncelog.client import Admin, ConfigError, Consumer, NewTopic, TopicPartition
from oncelog.client.blocking.clients import Admin as BlockingAdmin
from oncelog.client.blocking.clients import Consumer as BlockingConsumer
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.pipeline.group_offsets import GroupOffsets, checked, group_offsets
from oncelog.pipeline.options import parse
from oncelog.pipeline.sink.publish import publish
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.offsets import TopicOffsets
from oncelog.protocol.errors import ErrorCode
from tests.conftest import Start
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of
from tests.support.spark.sink_batches import check_group, group_of, make_topics, outputs_of, read, settings, wanted


def offsets(group: str, topic: str, topic_id: str = "", **more: int) -> GroupOffsets:
    """Offset 5 in the first partition of the topic, and of others."""
    end = {topic: TopicOffsets(topic_id, {}, {0: 5})}
    return group_offsets(group, [end, {name: TopicOffsets("", {}, {0: offset}) for name, offset in more.items()}])


def lookup(daemon: Daemon, topic: str, **more: str) -> Lookup:
    options: Mapping[str, str] = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": topic, **more}
    return Lookup(parse(options, "readStream"))


def committed(daemon: Daemon, group: str) -> dict[TopicPartition, int]:
    with BlockingAdmin(daemon.bootstrap) as admin:
        return {place: each.offset for place, each in admin.list_group_offsets(group).items()}


def test_of_a_partition_that_two_sources_read_the_lesser_offset_is_committed() -> None:
    ends = [{"t": TopicOffsets("id", {}, {0: 7, 1: 3})}, {"t": TopicOffsets("id", {}, {0: 5})}]
    assert group_offsets("lag", ends).offsets == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 3}


async def test_a_group_with_members_is_refused_and_nothing_of_the_batch_is_published(daemon: Daemon) -> None:
    """Its members would continue at the query's offsets; a transaction alone would be committed."""
    await make_topics(daemon.bootstrap, "members-")
    sink = settings(daemon.bootstrap, "members-")
    async with Consumer("members-totals", bootstrap_servers=daemon.bootstrap, group_id="lag-members-") as consumer:
        while not consumer.assignment():
            await consumer.poll()
        with pytest.raises(ConfigError, match="the group has a member"):
            await publish(sink, wanted(0), outputs_of(0, "members-"), group_offsets=group_of(0, "members-"))
    assert not await read(daemon.bootstrap, "members-totals")
    assert (await publish(sink, wanted(0), outputs_of(0, "members-"), group_offsets=group_of(0, "members-"))).published
    await check_group(daemon.bootstrap, "members-", 1)


async def test_only_offsets_of_topics_of_this_cluster_are_committed(daemon: Daemon) -> None:
    """A topic that is gone, or created again, has none; a source that has none here reads another cluster."""
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("of-here", 1))
        (topic,) = await admin.describe_topics("of-here")
    place = TopicPartition("of-here", 0)
    for known in ("", str(topic.topic_id)):
        assert await checked(daemon.bootstrap, {}, offsets("lag", "of-here", known, gone=1)) == {place: 5}
    for elsewhere in (offsets("lag", "gone"), offsets("lag", "of-here", "another id")):
        with pytest.raises(ConfigError, match="none of the topics that the query reads is on this cluster"):
            await checked(daemon.bootstrap, {}, elsewhere)
    assert await checked(daemon.bootstrap, {}, group_offsets("lag", [{}])) == {}


def test_the_source_commits_behind_what_is_done_and_refuses_a_group_with_members(daemon: Daemon) -> None:
    with BlockingAdmin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic("by-source", 1))
    source = lookup(daemon, "by-source")
    assert source.commit_group(offsets("lag-by-source", "by-source", gone=1))
    assert committed(daemon, "lag-by-source") == {TopicPartition("by-source", 0): 5}
    with BlockingConsumer("by-source", bootstrap_servers=daemon.bootstrap, group_id="lag-by-source") as consumer:
        while not consumer.assignment():
            consumer.poll()
        with pytest.raises(ConfigError, match="the group has members"):
            source.commit_group(offsets("lag-by-source", "by-source"))
    source.close()


def test_a_coordinator_that_does_not_answer_holds_no_query_up(start_daemon: Start) -> None:
    """The offsets are shown and not read: a warning, and the next batch commits them."""
    daemon = start_daemon("oncelog.admin.listen=127.0.0.1:0")
    with BlockingAdmin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic("patient", 1))
    faults = faults_of(daemon)
    loading, commits = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Selector(api=ApiKey.OFFSET_COMMIT)
    planted = faults.plant(Rule(Point.REQUEST, Action.ERROR, commits, times=None, error=loading))
    source = lookup(daemon, "patient", **{"kafka.default.api.timeout.ms": "200"})
    assert not source.commit_group(offsets("lag-patient", "patient"))
    source.close()
    faults.remove(planted)
    source = lookup(daemon, "patient")
    assert source.commit_group(offsets("lag-patient", "patient"))
    source.close()
    assert committed(daemon, "lag-patient") == {TopicPartition("patient", 0): 5}
