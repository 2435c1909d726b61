"""Members of a streams group in simulation: they join with a topology, take tasks over, give them up late, commit, are
lost and come back (KIP-1071).

Owns: what a member does, as Kafka Streams does: it reports its tasks when they have changed, gives up what it must give
up before it takes more, commits with its epoch, plainly or in transactions (exactly_once_v2). Does not own: what is
noted of it (`streams_world`), what must hold (`streams_history`).
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskIds, Topology
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.simulated import LEGS, Aborts, Fenced, Life, Question, Session, find_coordinators
from tests.history.auditor import HistoryError
from tests.simulation.streams_history import Task

GROUP = "application"
WORDS = "words"
COUNTED_BY = "0"
"""The subtopology that reads WORDS."""
REBALANCE_MS = 2_000
HEARTBEAT_MS = 500
_SESSION_OVER_MS = 6_500
E = ErrorCode
_JOINS, _LEAVES = 0, -1
_ABANDONS = (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND)
_STALE = (E.UNKNOWN_MEMBER_ID, E.STALE_MEMBER_EPOCH, E.ILLEGAL_GENERATION, E.GROUP_ID_NOT_FOUND)
_EXPECTED = ("Task ", "Topology updates are not supported yet.")
_NO_TASKS: frozenset[Task] = frozenset()


@dataclass
class StreamsMember:
    name: str
    process_id: str
    topology: Callable[[], Topology | None]
    """Returns the current topology, or None while another version of the application is deployed."""
    random: Random
    session: Session
    now_ms: Callable[[], int]
    is_quiet: Callable[[], bool]
    """Whether members should settle: none is late or in doubt from then on."""
    next_offset: Callable[[], int]
    new_session: Callable[[], Session]
    straggle: Callable[[Life], None]
    """Sends something on a connection of its own."""
    stays: bool = False
    generation: int = 0
    epoch: int = _JOINS
    active: frozenset[Task] = _NO_TASKS
    standby: frozenset[Task] = _NO_TASKS
    statuses: Sequence[int] = ()
    _version: Topology | None = None
    _heard_ms: int = -HEARTBEAT_MS
    _has_news: bool = False
    _is_unsure: bool = False
    """An answer was lost, and with it perhaps what it is to do: no other answer says it again, as in Kafka."""
    _next: tuple[int, frozenset[Task], frozenset[Task]] | None = field(default=None)
    """When the member will have released its other tasks, and the active and standby tasks that it then has."""

    def works(self, rounds: int) -> Life:
        yield from find_coordinators(self.session)
        yield from self._init()
        while self.stays or rounds > 0:
            rounds -= 1
            yield from self._belong()
            if self.stays and self.is_quiet():
                yield 100
                continue
            if self.active and self.random.random() < 0.6:
                yield from self._commit()
            strikes = self.random.random()
            if strikes < 0.03:
                # It is lost, and comes back as if nothing had happened.
                yield self.random.choice([4_000, _SESSION_OVER_MS])
            elif strikes < 0.04 and not self.stays:
                return
            yield self.random.choice([20, 100, 300])
        yield from self._leave()

    @property
    def member_id(self) -> str:
        return f"{self.name}.{self.generation}"

    # --- the group ----------------------------------------------------------------------------------------------------

    def _belong(self) -> Generator[Question | int, Any, None]:
        if self._version is None or self.topology() is not self._version:
            if self._version is not None:
                yield from self._leave()
                self.generation += 1  # an instance of another version is another member
            while self.topology() is None:
                yield 100
            self._version = self.topology()
        if self._is_unsure and self.is_quiet():
            self._abandon()
        if self._next is not None and self.now_ms() >= self._next[0]:
            _, self.active, self.standby = self._next
            self._next, self._has_news = None, True
        if self.epoch == _JOINS or self._has_news or self.now_ms() - self._heard_ms >= HEARTBEAT_MS:
            yield from self._beat()

    def _leave(self) -> Generator[Question | int, Any, None]:
        yield StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVES), 0
        self._abandon()

    def _beat(self) -> Generator[Question | int, Any, None]:
        fields: dict[str, Any] = {}
        if self.epoch == _JOINS:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "topology": self._topology(), "process_id": self.process_id}
        if fields or self._has_news or self._is_unsure or self.random.random() < 0.2:
            fields |= {"active_tasks": _ids(self.active), "standby_tasks": _ids(self.standby), "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        answer = yield request, 0
        if answer is None:
            if self.random.random() < 0.5:
                self._abandon()
            self._is_unsure = self.epoch != _JOINS
            yield self.random.choice([1, 30, 200])
            return
        code = answer.error_code
        if code in _ABANDONS or (code == E.INVALID_REQUEST and str(answer.error_message).startswith(_EXPECTED)):
            # It has tasks of topics that were deleted since, and are smaller now; or another topology.
            self._abandon()
        elif code in (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR):
            yield 40
        elif code:
            raise HistoryError(f"a heartbeat is refused: {E(code).name}, {answer.error_message}; {request}")
        else:
            self.epoch, self._heard_ms, self._has_news = answer.member_epoch, self.now_ms(), False
            self.statuses = [status.status_code for status in answer.status or ()]
            if answer.active_tasks is not None:
                self._take(tasks_of(answer.active_tasks), tasks_of(answer.standby_tasks))

    def _topology(self) -> Topology | None:
        """Now and then a newer one that differs in no task: it is refused unless the group is new."""
        topology = self.topology()
        if topology is None or self.random.random() < 0.8:
            return topology
        return Topology(epoch=topology.epoch + 1, subtopologies=topology.subtopologies)

    def _take(self, active: frozenset[Task], standby: frozenset[Task]) -> None:
        for name, number in sorted(self.active - active):
            if name == COUNTED_BY and not self.is_quiet() and self.random.random() < 0.5:
                late = self.random.choice([self._commits_late, self._transacts_late])
                self.straggle(late(self.epoch, number))
        is_late = self.active - active and not self.is_quiet() and self.random.random() < 0.5
        delay_ms = self.random.choice([50, 600, 1_500, 4_000]) if is_late else 0
        if delay_ms:
            self._next = (self.now_ms() + delay_ms, active, standby)
        else:
            self.active, self.standby, self._next, self._has_news = active, standby, None, True

    def _abandon(self) -> None:
        self.epoch, self.active, self.standby, self._next, self._is_unsure = _JOINS, _NO_TASKS, _NO_TASKS, None, False

    # --- offsets ------------------------------------------------------------------------------------------------------

    def _commit(self) -> Generator[Question | int, Any, None]:
        mine = sorted(number for name, number in self.active if name == COUNTED_BY)
        if not mine:
            return
        partition = self.random.choice(mine)
        if self.random.random() < 0.2:
            self.straggle(self._commits_late(self.epoch, partition))
        elif self.random.random() < 0.4:
            answer = yield self._plain(self.epoch, partition), 9
            if answer is not None and answer.topics[0].partitions[0].error_code == E.UNKNOWN_MEMBER_ID:
                self._abandon()
        else:
            yield from self._transact(partition)

    def _commits_late(self, epoch: int, partition: int) -> Life:
        """Send a commit while the task is the member's own, to arrive when it may be another's."""
        late = self._plain(epoch, partition)
        yield self.random.choice([100, 700, 2_500, 6_000])
        yield late, 9

    def _transacts_late(self, epoch: int, partition: int) -> Life:
        """Likewise, in a transaction of its own."""
        member_id, session = self.member_id, self.new_session()
        yield self.random.choice([100, 700, 2_500, 6_000])
        yield from session.init()
        is_taken = yield from self._commit_in_transaction(session, member_id, epoch, partition, self.next_offset())
        yield from session.end("late", commit=is_taken)

    def _plain(self, epoch: int, partition: int) -> OffsetCommitRequest:
        data = OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.next_offset())
        return OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=WORDS, partitions=[data])],
        )

    def _transact(self, partition: int) -> Generator[Question | int, Any, None]:
        session, epoch = self.session, self.epoch
        offset = self.next_offset()
        name = f"{self.member_id}:{offset}"
        try:
            if self.random.random() < 0.3:
                yield from session.write(name, LEGS[0], name.encode())
            if self.random.random() < 0.1:
                yield self.random.choice([100, 1_000, _SESSION_OVER_MS])
            is_taken = yield from self._commit_in_transaction(session, self.member_id, epoch, partition, offset)
            yield self.random.choice([0, 0, 20, 300, 1_500])
            yield from session.end(name, commit=is_taken and self.random.random() < 0.7)
        except Aborts:
            try:
                yield from session.end(name, commit=False)
            except (Aborts, Fenced):
                yield from self._init()
        except Fenced:
            yield from self._init()

    def _init(self) -> Generator[Question | int, Any, None]:
        """Initialise the producer until it succeeds. The transactional id has one user, so a refusal means that its
        transaction was ended meanwhile.
        """
        while True:
            try:
                yield from self.session.init()
                return
            except (Aborts, Fenced):
                yield 30

    def _commit_in_transaction(
        self, session: Session, member_id: str, epoch: int, partition: int, offset: int
    ) -> Generator[Question | int, Any, bool]:
        data = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=session.transactional_id,
            group_id=GROUP,
            producer_id=session.producer_id,
            producer_epoch=session.producer_epoch,
            generation_id=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=WORDS, partitions=[data])],
        )
        while True:
            answer = yield from session.ask(request, 5)
            code = answer.topics[0].partitions[0].error_code
            if code in _STALE:
                return False
            if not session.check(code):
                return True
            yield 20


def looks(random: Random, count: int, partitions: Callable[[], Iterable[int]]) -> Life:
    """Ask for the committed offsets now and then, waiting for open transactions."""
    for _ in range(count):
        yield committed_offsets(partitions()), 7
        yield random.choice([50, 300, 900])


def committed_offsets(partitions: Iterable[int]) -> OffsetFetchRequest:
    named = OffsetFetchRequestTopic(name=WORDS, partition_indexes=list(partitions))
    return OffsetFetchRequest(group_id=GROUP, topics=[named], require_stable=True)


def tasks_of(entries: Sequence[Any]) -> frozenset[Task]:
    return frozenset((entry.subtopology_id, number) for entry in entries for number in entry.partitions)


def _ids(tasks: Iterable[Task]) -> list[TaskIds]:
    names = sorted({name for name, _ in tasks})
    return [
        TaskIds(subtopology_id=name, partitions=sorted(number for other, number in tasks if other == name))
        for name in names
    ]
