"""What a stream's trigger asks the brokers: little while nothing is new, and everything as soon as anything is."""

from pathlib import Path
from typing import Any

import pytest

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.pipeline.options import parse
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.losses import DataLost
from oncelog.pipeline.source.offsets import INITIAL, to_json
from oncelog.pipeline.source.stream import StreamPlan
from tests.support.processes.daemon import Daemon


class CountingLookup(Lookup):
    """Counts how often offsets are asked for."""

    asked = 0

    def offsets(self, *arguments: Any) -> Any:
        self.asked += 1
        return super().offsets(*arguments)


def opened(daemon: Daemon, topic: str, **more: str) -> tuple[CountingLookup, StreamPlan]:
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **more}
    parsed = parse(options, "readStream")
    lookup = CountingLookup(parsed)
    return lookup, StreamPlan(parsed, lookup)


def write(daemon: Daemon, topic: str, count: int) -> None:
    with Producer(daemon.bootstrap) as producer:
        producer.send_many(topic, [(None, b"x")] * count)
        producer.flush()


@pytest.fixture
def topic(daemon: Daemon, tmp_path: Path) -> str:
    with Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic(tmp_path.name, 1))
    return tmp_path.name


def test_a_trigger_with_nothing_new_asks_for_one_kind_of_offsets(daemon: Daemon, topic: str) -> None:
    write(daemon, topic, 3)
    lookup, plan = opened(daemon, topic)
    first = plan.next_end(to_json(INITIAL), None)
    lookup.asked = 0
    assert plan.next_end(first, None) == first
    assert lookup.asked == 1
    write(daemon, topic, 2)
    assert plan.next_end(first, None)["topics"][topic]["next"] == {"0": 5}
    lookup.close()


def test_a_topic_created_again_with_as_many_records_is_new(daemon: Daemon, topic: str) -> None:
    """The new log ends where the old one did: only the topic id differs."""
    write(daemon, topic, 3)
    lookup, plan = opened(daemon, topic)
    first = plan.next_end(to_json(INITIAL), None)
    with Admin(daemon.bootstrap) as admin:
        admin.delete_topics(topic)
        admin.create_topics(NewTopic(topic, 1))
    write(daemon, topic, 3)
    with pytest.raises(DataLost, match="was deleted and created again"):
        plan.next_end(first, None)
    lookup.close()
    careless_lookup, careless = opened(daemon, topic, failOnDataLoss="false")
    end = careless.next_end(first, None)
    assert [(each.start, each.end) for each in careless.tasks(first, end)] == [(0, 3)]
    careless_lookup.close()


def test_a_log_that_ends_before_the_checkpoint_is_not_taken_for_an_idle_one(daemon: Daemon, topic: str) -> None:
    write(daemon, topic, 3)
    lookup, plan = opened(daemon, topic)
    first = plan.next_end(to_json(INITIAL), None)
    first["topics"][topic]["next"] = {"0": 4}
    with pytest.raises(DataLost, match="ends at offset 3, but the checkpoint is at 4"):
        plan.next_end(first, None)
    lookup.close()
