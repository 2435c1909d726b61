"""Whatever commits, transactions, deletions and stops come in whatever order: fetched offsets are what a model says."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.clients.group_members import TOPIC, commit, started
from tests.clients.offset_producer import TIMEOUT_MS, Producer
from tests.fakes.broker import VirtualBroker
from tests.support.samples import examples

GROUPS = ("one", "two")
PARTITIONS = (0, 1)
PRODUCERS = ("first", "second")
RETENTION_MS = 60_000

Key = tuple[str, int]

group_ids = st.sampled_from(GROUPS)
partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCERS)
steps = st.one_of(
    st.tuples(st.just("commit"), group_ids, partitions),
    st.tuples(st.just("commit in transaction"), producers, group_ids, partitions),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("fence"), producers),
    st.tuples(st.just("delete group"), group_ids),
    st.tuples(st.just("delete offset"), group_ids, partitions),
    st.tuples(st.just("make the topic anew")),
    st.tuples(st.just("lose all groups")),
    st.tuples(st.just("stay idle")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("power cut"), st.integers(0, 1000)),
)


@dataclass
class Model:
    """Offsets are numbers that rise with every commit, so that the later record has the greater one."""

    last: int = 0
    committed: dict[Key, int] = field(default_factory=dict)
    pending: dict[str, dict[Key, int]] = field(default_factory=lambda: {name: {} for name in PRODUCERS})

    def next(self) -> int:
        self.last += 1
        return self.last

    def end(self, producer: str, committed: bool) -> None:
        for key, offset in self.pending[producer].items():
            if committed:
                self.committed[key] = max(offset, self.committed.get(key, 0))
        self.pending[producer] = {}

    def forget(self, key: Key) -> None:
        for offsets in (self.committed, *self.pending.values()):
            offsets.pop(key, None)

    def forget_all(self) -> None:
        self.committed = {}
        self.pending = {name: {} for name in PRODUCERS}

    def fetched(self, *, require_stable: bool) -> dict[Key, int]:
        found = dict(self.committed)
        if require_stable:
            found.update(dict.fromkeys((key for offsets in self.pending.values() for key in offsets), -1))
        return found


def fetched(broker: VirtualBroker, *, require_stable: bool) -> dict[Key, int]:
    asked = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in GROUPS]
    answer = broker.ask(OffsetFetchRequest(groups=asked, require_stable=require_stable), 8)
    found = {}
    for group in answer.groups:
        for topic in group.topics:
            for entry in topic.partitions:
                is_unstable = entry.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                assert is_unstable == (entry.committed_offset == -1)
                found[group.group_id, entry.partition_index] = entry.committed_offset
    return found


def delete_topic(broker: VirtualBroker, name: str) -> None:
    answer = broker.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
    assert answer.responses[0].error_code == ErrorCode.NONE


class Run:
    def __init__(self) -> None:
        self.model = Model()
        self.broker = started("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1")
        self.producers = {name: Producer(self.broker, name).init() for name in PRODUCERS}

    def restart(self, broker: VirtualBroker) -> None:
        self.broker = broker
        for producer in self.producers.values():
            producer.broker = broker

    def cut_power(self, seed: int) -> None:
        """Cut the power: open transactions are aborted, since they may have lost a part."""
        self.restart(self.broker.crashed(seed))
        for name in PRODUCERS:
            if self.model.pending[name]:
                self.model.end(name, committed=False)
                assert (
                    self.producers[name].send_end(committed=True).message.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
                )
                self.producers[name] = Producer(self.broker, name).init()

    # One case for each kind of step.
    def step(self, step: tuple[object, ...]) -> None:  # noqa: C901
        match step:
            case ("commit", str(group_id), int(partition)):
                offset = self.model.next()
                assert commit(self.broker, offset, partition, group_id=group_id) == ErrorCode.NONE
                self.model.committed[group_id, partition] = offset
            case ("commit in transaction", str(name), str(group_id), int(partition)):
                offset = self.model.next()
                self.producers[name].commit_offset(offset, partition, group_id=group_id)
                self.model.pending[name][group_id, partition] = offset
            case ("end", str(name), bool(committed)):
                self._end(name, committed)
            case ("fence", str(name)):
                self.producers[name] = Producer(self.broker, name).init()
                self.model.end(name, committed=False)
            case ("delete group", str(group_id)):
                self.broker.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
                for partition in PARTITIONS:
                    self.model.forget((group_id, partition))
            case ("delete offset", str(group_id), int(partition)):
                topic = OffsetDeleteRequestTopic(
                    name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
                self.broker.ask(OffsetDeleteRequest(group_id=group_id, topics=[topic]), 0)
                self.model.forget((group_id, partition))
            case ("make the topic anew",):
                delete_topic(self.broker, TOPIC)
                anew = CreatableTopic(name=TOPIC, num_partitions=len(PARTITIONS), replication_factor=1)
                self.broker.ask(CreateTopicsRequest(topics=[anew], timeout_ms=1000), 5)
                self.model.forget_all()
            case ("lose all groups",):
                delete_topic(self.broker, "__consumer_offsets")
                assert self.broker.ask(FindCoordinatorRequest(key="one"), 1).error_code == ErrorCode.NONE
                self.model.forget_all()
            case ("stay idle",):
                self._stay_idle()
            case ("kill",):
                self.restart(self.broker.killed())
            case ("power cut", int(seed)):
                self.cut_power(seed)

    def _stay_idle(self) -> None:
        """Longer than offsets are kept and transactions may take."""
        self.broker.time.advance(RETENTION_MS + TIMEOUT_MS)
        for _ in range(2):
            self.broker.broker.groups.step()
            self.broker.time.advance(1)
        self.model.forget_all()
        assert self.broker.ask(ListGroupsRequest(), 5).groups == []
        self.producers = {name: Producer(self.broker, name).init() for name in PRODUCERS}

    def _end(self, name: str, committed: bool) -> None:
        error = self.producers[name].send_end(committed=committed).message.error_code
        if error == ErrorCode.INVALID_TXN_STATE:  # nothing was open
            assert not self.model.pending[name]
            return
        assert error == ErrorCode.NONE
        self.model.end(name, committed)

    def check(self) -> None:
        for require_stable in (False, True):
            assert fetched(self.broker, require_stable=require_stable) == self.model.fetched(
                require_stable=require_stable
            )


@settings(max_examples=examples(60))
@given(st.lists(steps, max_size=25), st.integers(0, 1000))
def test_offsets_are_what_the_model_says_live_and_after_every_kind_of_stop(
    taken: list[tuple[object, ...]], seed: int
) -> None:
    run = Run()
    for step in taken:
        run.step(step)
        run.check()
    run.cut_power(seed)
    run.check()
