"""Streams groups in simulation: members with a topology, topics that are deleted and grow, commits, stops of all kinds.

Owns: what happens beside the members, the internal topics that the broker makes, and the account that `streams_history`
judges: taken where requests arrive at the broker, so that an answer that is lost on its way counts too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.offset_commit_request import OffsetCommitRequest
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from oncelog.protocol.generated.txn_offset_commit_request import TxnOffsetCommitRequest
from oncelog.protocol.message import Message
from tests.clients.simulated import LEGS, TABLE, Life, Session
from tests.fakes.broker import Reply
from tests.fakes.budget import names_its_seed
from tests.history.auditor import HistoryError
from tests.history.events import History
from tests.history.recorder import Recorder
from tests.simulation.broker_network import Client
from tests.simulation.share_world import ShareNetwork
from tests.simulation.stage import Stage, Turn
from tests.simulation.streams_history import (
    Beat,
    Commit,
    Deletion,
    Ending,
    Holding,
    Look,
    Made,
    StreamsHistory,
    Task,
    audit,
    tally,
    unsettled,
)
from tests.simulation.streams_members import (
    COUNTED_BY,
    GROUP,
    HEARTBEAT_MS,
    REBALANCE_MS,
    WORDS,
    StreamsMember,
    committed_offsets,
    looks,
    tasks_of,
)

_NAMES = "names"
_REPARTITION, _CHANGELOG = "application-words-repartition", "application-counts-changelog"
_NAMED_REPARTITION, _NAMED_CHANGELOG = "application-join-repartition", "application-join-changelog"
_INTERNAL = (_REPARTITION, _CHANGELOG, _NAMED_REPARTITION, _NAMED_CHANGELOG)
_STATEFUL = {"1", "2"}
_SESSION_MS = 6_000
_OF_LATE_MS = 1_000
_CALM_MS = 60_000
_MOST_WORDS = 4
_STABLE = "Stable"
_STALE_TOPOLOGY = 0
_GROUP_RESOURCE = 32


class Noted:
    """A request as it arrived, until its answer is there."""

    def __init__(self, reply: Reply, account: Callable[[Any, Turn], None], lost: Callable[[Turn], None]) -> None:
        self.reply = reply
        self.account = account
        self.lost = lost


class StreamsNetwork(ShareNetwork):
    """Never delivers a heartbeat twice: an assignment would be in the one response alone that no client reads, since no
    later one repeats it, as in Kafka 4.3.
    """

    def _take(
        self, client: Client, ticket: int, frame: memoryview, request: Any, version: int, is_double: bool
    ) -> None:
        if not (is_double and isinstance(request, StreamsGroupHeartbeatRequest)):
            super()._take(client, ticket, frame, request, version, is_double)


class StreamsWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self._standby_count = self.random.choice([0, 1, 2])
        self._fixed = self.random.choice([0, 0, 3])
        self._topology: Topology | None = _topology(self._fixed)
        self.stage = Stage(
            seed,
            self.random,
            (
                "offsets.topic.num.partitions=2",
                "transaction.state.log.num.partitions=2",
                "group.streams.min.session.timeout.ms=1000",
                f"group.streams.session.timeout.ms={_SESSION_MS}",
                "group.streams.min.heartbeat.interval.ms=500",
                f"group.streams.heartbeat.interval.ms={HEARTBEAT_MS}",
                f"group.streams.num.standby.replicas={self._standby_count}",
                f"group.streams.initial.rebalance.delay.ms={self.random.choice([0, 0, 1_500])}",
                f"group.streams.assignment.interval.ms={self.random.choice([0, 300, 1_000])}",
                f"oncelog.flush.loop.appends={self.random.choice([0, 1, 1, 64])}",
            ),
        )
        self.stage.collect, self.stage.on_stop, self.stage.on_start = self._collect, self._on_stop, self._on_start
        self.history = StreamsHistory(_SESSION_MS, REBALANCE_MS, COUNTED_BY)
        self._recorder = Recorder(History())
        self._offsets = count(1)
        self._clients: list[Client] = []
        self._crew: list[StreamsMember] = []
        self._noted: list[Noted] = []
        self._before: dict[str, Any] | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._wanted: dict[str, list[tuple[int, int]]] = {name: [] for name in _INTERNAL}
        """When a source began to want which count of partitions."""
        self.network = StreamsNetwork(
            self.random, self.stage.later, lambda: self.stage.broker, may_be_late=False, note=self._on_request
        )
        sizes = ((WORDS, 2), (_NAMES, 2), (LEGS[0][0], len(LEGS)), (TABLE[0], 1))
        topics = [CreatableTopic(name=name, num_partitions=size, replication_factor=1) for name, size in sizes]
        self.stage.broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 5)

    # --- the account --------------------------------------------------------------------------------------------------

    def _on_request(self, request: Message, take: Callable[[], Reply]) -> Reply:
        arrived = self.stage.turn()
        match request:
            case StreamsGroupHeartbeatRequest():
                self._note(self._beat(request, arrived), reply := take(), _note_beat)
            case OffsetCommitRequest() | TxnOffsetCommitRequest():
                self._note(self._commit(request, arrived), reply := take(), _note_commit)
            case EndTxnRequest():
                identity = request.producer_id, request.producer_epoch
                ending = Ending(identity, request.committed, arrived)
                self.history.endings.append(ending)
                self._note(ending, reply := take(), lambda each, answer: setattr(each, "error", answer.error_code))
            case DeleteGroupsRequest():
                deletion = Deletion(arrived)
                self.history.deletions.append(deletion)
                self._note(deletion, reply := take(), _note_deletion)
            case OffsetFetchRequest():
                reply = take()
                self._noted.append(
                    Noted(reply, lambda answer, ended: self._note_looks(answer, arrived, ended), lambda _: None)
                )
            case _:
                reply = take()
        return reply

    def _note(self, each: Any, reply: Reply, heed: Callable[[Any, Any], None]) -> None:
        def account(answer: Any, ended: Turn) -> None:
            each.ended = ended
            heed(each, answer)

        self._noted.append(Noted(reply, account, lambda ended: setattr(each, "ended", ended)))

    def _beat(self, request: StreamsGroupHeartbeatRequest, arrived: Turn) -> Beat:
        active, standby = map(_tasks_or_none, (request.active_tasks, request.standby_tasks))
        beat = Beat(request.member_id, request.member_epoch, active, standby, arrived)
        self.history.beats.append(beat)
        return beat

    def _commit(self, request: Any, arrived: Turn) -> Commit:
        data = request.topics[0].partitions[0]
        is_plain = isinstance(request, OffsetCommitRequest)
        epoch = request.generation_id_or_member_epoch if is_plain else request.generation_id
        identity = None if is_plain else (request.producer_id, request.producer_epoch)
        commit = Commit(request.member_id, epoch, data.partition_index, data.committed_offset, identity, arrived)
        self.history.commits.append(commit)
        return commit

    def _note_looks(self, answer: Any, arrived: Turn, ended: Turn) -> None:
        if answer.error_code:
            return
        for data in answer.topics[0].partitions:
            if not data.error_code:
                self.history.looks.append(Look(data.partition_index, data.committed_offset, arrived, ended))

    def _collect(self) -> None:
        self._note_answers()
        self._note_topics()
        self.network.collect()

    def _note_answers(self) -> None:
        waiting, self._noted = self._noted, []
        for each in waiting:
            if not each.reply.is_there:
                self._noted.append(each)
            elif not each.reply.is_closed:
                each.account(each.reply.message, self.stage.turn())

    def _note_topics(self) -> None:
        words, names = self._size(WORDS), self._size(_NAMES)
        self._want(_REPARTITION, self._fixed or words)
        self._want(_CHANGELOG, self._fixed or words)
        self._want(_NAMED_REPARTITION, names)
        self._want(_NAMED_CHANGELOG, names)
        for name in _INTERNAL:
            topic = self.stage.broker.broker.topics.get(name)
            if topic is not None and self._topic_ids.get(name) != topic.topic_id:
                self._topic_ids[name] = topic.topic_id
                self.history.made.append(Made(name, topic.partition_count, self._wanted_of_late(name)))

    def _want(self, name: str, size: int) -> None:
        wanted = self._wanted[name]
        if not wanted or wanted[-1][1] != size:
            wanted.append((self.stage.now_ms, size))

    def _wanted_of_late(self, name: str) -> frozenset[int]:
        wanted = self._wanted[name]
        ends = [began_ms for began_ms, _ in wanted[1:]] + [self.stage.now_ms]
        of_late = zip(wanted, ends, strict=True)
        return frozenset(size for (_, size), end_ms in of_late if end_ms >= self.stage.now_ms - _OF_LATE_MS)

    def _size(self, name: str) -> int:
        topic = self.stage.broker.broker.topics.get(name)
        return 0 if topic is None else topic.partition_count

    def _on_stop(self, kind: str) -> None:
        self._note_answers()
        ended = self.stage.turn()
        for each in self._noted:
            each.lost(ended)
        self._noted = []
        self.network.on_restart()
        self._before = self._state() if kind == "kill" else None

    def _on_start(self) -> None:
        after = self._state()
        if self._before is not None and after is not None:
            self.history.replays.append((self._before, after))
        group = self._described()
        if group.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            epochs = {member.member_id: member.member_epoch for member in group.members}
            self.history.starts.append((self.stage.turn(), group.group_epoch, epochs))

    def _described(self) -> Any:
        (group,) = self.stage.broker.ask(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0).groups
        return group

    def _state(self) -> dict[str, Any] | None:
        """Everything that the group is; None while something awaits its round, since that may be lost."""
        virtual = self.stage.broker
        if any(log.high_watermark != log.log_end_offset for log in virtual.broker.logs.logs):
            return None
        read = virtual.broker.groups.streams.describe(GROUP)
        virtual.time.settle()
        if not read.done or read.error is not None:
            return None
        return vars(read.result().group)

    # --- a life -------------------------------------------------------------------------------------------------------

    @names_its_seed
    def run(self, duration_ms: int = 20_000) -> "Counter[str]":
        stage = self.stage
        for number in range(5):
            member = self._member(number)
            if member.stays:
                self._crew.append(member)
            life = member.works(self.random.choice([10, 30, 80]))
            client = Client(life, f"member-{number}")
            stage.later(self.random.randint(0, 6_000) if number else 0, lambda new=client: self.network.join(new))  # type: ignore[misc]
            if not member.stays:
                self._clients.append(client)
        self._join(self._tends(8), "janitor")
        if self.random.random() < 0.5:
            self._join(self._updates(), "update")
        self._join(looks(Random(self.random.random()), 20, lambda: range(_MOST_WORDS)), "onlooker")
        stage.trouble()
        stage.run_until(duration_ms)
        self.network.is_calm = True
        stage.calm()
        self._finish(duration_ms)
        self._heal()
        self._settle()
        self._look_last()
        audit(self.history)
        counts = stage.counts
        counts.update(tally(self.history))
        return counts

    def _member(self, number: int) -> StreamsMember:
        random = Random(self.random.random())
        name = f"m{number}"
        session_count = count()

        def new_session() -> Session:
            session = f"{name}-{next(session_count)}"
            return Session(session, 2, self._recorder, session, Random(random.random()), self._wall_ms)

        return StreamsMember(
            name,
            random.choice("pqr"),
            lambda: self._topology,
            random,
            new_session(),
            lambda: self.stage.now_ms,
            lambda: self.stage.is_calm,
            lambda: next(self._offsets),
            new_session,
            lambda life: self._join(life, f"straggler of {name}"),
            stays=number < 3,
        )

    def _wall_ms(self) -> int:
        return self.stage.broker.time.wall_ms()

    def _join(self, life: Life, name: str) -> None:
        client = Client(life, name)
        self._clients.append(client)
        self.network.join(client)

    def _tends(self, number: int) -> Life:
        """Topics go, come again with another size, and grow."""
        random = Random(self.random.random())
        for _ in range(number):
            yield random.choice([500, 1_500, 4_000])
            kind = random.choice(["delete", "delete", "grow", "renew", "heal", "heal", "tune"])
            if kind == "tune":
                yield from self._tunes(random.choice([0, 1, 2]))
                continue
            if kind == "grow":
                size = min(_MOST_WORDS, self._size(WORDS) + 1)
                topic = CreatePartitionsTopic(name=WORDS, count=size, assignments=None)
                yield CreatePartitionsRequest(topics=[topic], timeout_ms=1_000), 3
                continue
            if kind == "heal":
                yield _deletion(self._misfits()), 6
                continue
            name = _NAMES if kind == "renew" else random.choice(_INTERNAL)
            yield _deletion([name]), 6
            if kind == "renew":
                yield random.choice([0, 200, 1_500])
                size = random.choice([1, 2, 3])
                while not self._size(_NAMES):
                    new = CreatableTopic(name=_NAMES, num_partitions=size, replication_factor=1)
                    yield CreateTopicsRequest(topics=[new], timeout_ms=1_000), 5
                    yield 20

    def _updates(self) -> Life:
        """Another version of the application, for which the group must go, as in Kafka 4.3."""
        yield self.random.choice([4_000, 8_000])
        self._topology = None
        while True:
            answer = yield DeleteGroupsRequest(groups_names=[GROUP]), 2
            if answer is not None and answer.results[0].error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                break
            yield 300
        self._fixed = 0 if self._fixed else 3
        self._topology = _topology(self._fixed)

    def _tunes(self, standby_count: int) -> Life:
        config = AlterableConfig(name="streams.num.standby.replicas", config_operation=0, value=str(standby_count))
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=GROUP, configs=[config])
        while True:
            answer = yield IncrementalAlterConfigsRequest(resources=[resource]), 1
            if answer is not None and not answer.responses[0].error_code:
                break
            yield 50
        self._standby_count = standby_count

    # --- its end ------------------------------------------------------------------------------------------------------

    def _finish(self, start_ms: int) -> None:
        while self.stage.now_ms < start_ms + _CALM_MS and not all(client.is_done for client in self._clients):
            self.stage.run_until(self.stage.now_ms + 500)
        at_work = [client.name for client in self._clients if not client.is_done]
        if at_work:
            raise HistoryError(f"everybody gets on after the last fault: {at_work} do not")

    def _misfits(self) -> list[str]:
        """The internal topics that are of another size than their sources want now."""
        words, names = self._size(WORDS), self._size(_NAMES)
        counted = self._fixed or words
        wanted = {_REPARTITION: counted, _CHANGELOG: counted, _NAMED_REPARTITION: names, _NAMED_CHANGELOG: names}
        return [name for name, size in wanted.items() if self._size(name) not in (0, size)]

    def _heal(self) -> None:
        """Delete the internal topics that do not fit, as an administrator would: the broker creates them again."""
        misfits = self._misfits()
        if misfits:
            self.stage.counts["healed"] += 1
            self.stage.broker.ask(_deletion(misfits), 6)

    def _settle(self) -> None:
        start_ms = self.stage.now_ms
        while missing := self._unsettled():
            if self.stage.now_ms >= start_ms + _CALM_MS:
                raise HistoryError(f"T9, every task is with one member in the end: {missing}")
            self.stage.run_until(self.stage.now_ms + 250)

    def _unsettled(self) -> str:
        absent = [name for name in _INTERNAL if not self._size(name)]
        if absent:
            return f"{absent} are missing; {[(each.member_id, each.statuses) for each in self._crew]}"
        holdings = [Holding(each.member_id, each.process_id, each.active, each.standby) for each in self._crew]
        counts = {COUNTED_BY: self._size(WORDS), "1": self._size(_REPARTITION), "2": self._size(_NAMES)}
        return unsettled(holdings, counts, _STATEFUL, self._standby_count) or self._is_described()

    def _is_described(self) -> str:
        """Whether the description is what members have."""
        group = self._described()
        shown = {
            member.member_id: (
                member.member_epoch,
                tasks_of(member.assignment.active_tasks),
                tasks_of(member.assignment.standby_tasks),
            )
            for member in group.members
        }
        have = {each.member_id: (each.epoch, each.active, each.standby) for each in self._crew}
        return "" if group.group_state == _STABLE and shown == have else f"{group.group_state}: {shown}, not {have}"

    def _look_last(self) -> None:
        arrived = self.stage.turn()
        for _ in range(100):
            answer = self.stage.broker.ask(committed_offsets(range(_MOST_WORDS)), 7)
            if not any(data.error_code for data in answer.topics[0].partitions):
                break
            self.stage.run_until(self.stage.now_ms + 100)
        else:
            raise HistoryError("every transaction ends: some offset is still open")
        self._note_looks(answer, arrived, self.stage.turn())


def _note_beat(beat: Beat, answer: Any) -> None:
    beat.error = answer.error_code
    if not answer.error_code:
        beat.told_epoch = answer.member_epoch
        beat.is_stale = any(status.status_code == _STALE_TOPOLOGY for status in answer.status or ())
        beat.told, beat.told_standby = map(_tasks_or_none, (answer.active_tasks, answer.standby_tasks))


def _tasks_or_none(entries: Sequence[Any] | None) -> frozenset[Task] | None:
    return None if entries is None else tasks_of(entries)


def _note_deletion(deletion: Deletion, answer: Any) -> None:
    deletion.error = answer.results[0].error_code


def _note_commit(commit: Commit, answer: Any) -> None:
    code = answer.topics[0].partitions[0].error_code
    # Lost after it was logged and before it was durable: the next coordinator may have it.
    commit.error = None if code == ErrorCode.NOT_COORDINATOR else code


def _topology(fixed: int) -> Topology:
    """Counts words behind a repartition topic, and joins them with names, which are read in as many partitions."""
    compact = [KeyValue(key="cleanup.policy", value="compact")]
    return Topology(
        epoch=1,
        subtopologies=[
            Subtopology(
                subtopology_id=COUNTED_BY,
                source_topics=[WORDS],
                repartition_sink_topics=[_REPARTITION, _NAMED_REPARTITION],
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=_REPARTITION, partitions=fixed)],
                state_changelog_topics=[TopicInfo(name=_CHANGELOG, topic_configs=compact)],
            ),
            Subtopology(
                subtopology_id="2",
                source_topics=[_NAMES],
                repartition_source_topics=[TopicInfo(name=_NAMED_REPARTITION)],
                state_changelog_topics=[TopicInfo(name=_NAMED_CHANGELOG, topic_configs=compact)],
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            ),
        ],
    )


def _deletion(names: list[str]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1_000)
