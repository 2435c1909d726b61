"""Members of a share group in simulation: they join, fetch, decide record by record, die and are replaced (KIP-932).

Owns: what a member does, as Kafka's share consumers do: a session that is opened again after each answer that did not
come, acknowledgements with the next fetch or on their own, renewals, offsets without a record acknowledged as gaps.
Some take longer than the acquisition lock lasts. Does not own: what is noted of it (`share_world`), what must hold.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import share_acknowledge_request as acknowledging
from oncelog.protocol.generated import share_fetch_request as fetching
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from tests.clients.simulated import Life, Question
from tests.history.auditor import HistoryError
from tests.simulation.share_history import ACCEPT, GAP, REJECT, RELEASE, RENEW

GROUP = "sharers"
E = ErrorCode
_JOINS, _LEAVES = 0, -1
_OPENS, _CLOSES = 0, -1
_HEARTBEAT_MS = 500

Ranges = list[tuple[int, int, list[int]]]
"""First and last offset, and the type of each offset, or one of all."""


@dataclass
class ShareMember:
    member_id: str
    topic: str
    topic_id: UUID
    random: Random
    now_ms: Callable[[], int]
    accepts_all: bool = False
    """Never in doubt, never late."""
    epoch: int = _JOINS
    session_epoch: int = _OPENS
    has_acquired: int = 0
    assigned: tuple[int, ...] = ()
    _heard_ms: int = -_HEARTBEAT_MS
    _in_session: set[int] = field(default_factory=set)
    _decided: dict[int, Ranges] = field(default_factory=dict)
    """The acknowledgements to send, by partition."""

    def works(self, rounds: int) -> Life:
        for _ in range(rounds):
            yield from self._belong()
            if not self.assigned:
                yield 50
                continue
            held = yield from self._fetch()
            if held:
                yield self._time_for_work_ms()
                if not self.accepts_all and self.random.random() < 0.03:
                    return  # it dies with what it holds
                for partition, offsets in held.items():
                    self._decided.setdefault(partition, []).extend(self._decide(offsets))
                if self._has_renewals or self.random.random() < 0.5:
                    yield from self._acknowledge()
        yield from self._leave()

    def holds(self, partitions: Sequence[int]) -> Life:
        """Takes what there is, and never says what became of it. It is no member of the group, which Kafka does not ask
        for: so the group never takes it for dead, and only the ends of its locks give back what it has."""
        self.assigned = tuple(partitions)
        while not self.has_acquired:
            yield from self._fetch()
        while True:
            yield _HEARTBEAT_MS

    def _time_for_work_ms(self) -> int:
        return 0 if self.accepts_all else self.random.choice([0, 0, 10, 200, 900, 2_500])

    @property
    def _has_renewals(self) -> bool:
        return any(RENEW in kinds for ranges in self._decided.values() for _, _, kinds in ranges)

    # --- the group ----------------------------------------------------------------------------------------------------

    def _belong(self) -> Generator[Question | int, Any, None]:
        while self.epoch == _JOINS or self.now_ms() - self._heard_ms >= _HEARTBEAT_MS:
            topics = [self.topic] if self.epoch == _JOINS else None
            request = ShareGroupHeartbeatRequest(
                group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=topics
            )
            answer = yield request, 1
            if answer is None:
                yield self.random.choice([1, 30, 200])
            elif answer.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
                self.epoch, self.assigned = _JOINS, ()
            elif answer.error_code:
                yield 40
            else:
                self.epoch, self._heard_ms = answer.member_epoch, self.now_ms()
                if answer.assignment is not None:
                    self.assigned = tuple(
                        partition for topic in answer.assignment.topic_partitions for partition in topic.partitions
                    )

    def _leave(self) -> Generator[Question | int, Any, None]:
        """Some close their session first, as they should; some are just gone from the group."""
        if self.session_epoch != _OPENS and self.random.random() < 0.7:
            self.session_epoch = _CLOSES
            yield from self._acknowledge()
        yield ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=_LEAVES), 1

    # --- records ------------------------------------------------------------------------------------------------------

    def _fetch(self) -> Generator[Question | int, Any, dict[int, list[tuple[int, bool]]]]:
        """The offsets that it now holds of each partition, and whether there is a record."""
        decided, self._decided = ({}, self._decided) if self.session_epoch == _OPENS else (self._decided, {})
        if self.session_epoch == _OPENS:
            self._decided = {}  # they are of a session that is over
            self._in_session = set()
        added, removed = set(self.assigned) - self._in_session, self._in_session - set(self.assigned)
        self._in_session = set(self.assigned)
        named = sorted(added | decided.keys())
        batch = fetching.AcknowledgementBatch
        request = fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=0 if self.accepts_all else self.random.choice([0, 100, 300]),
            min_bytes=1,
            max_bytes=100_000,
            max_records=self.random.choice([1, 3, 500]),
            batch_size=self.random.choice([1, 2, 500]),
            share_acquire_mode=self.random.choice([0, 1]),
            topics=[
                fetching.FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=partition,
                            acknowledgement_batches=[batch(*each) for each in decided.get(partition, ())],
                        )
                        for partition in named
                    ],
                )
            ]
            if named
            else [],
            forgotten_topics_data=[fetching.ForgottenTopic(topic_id=self.topic_id, partitions=sorted(removed))]
            if removed
            else [],
        )
        answer = yield request, 2
        if not self._goes_on(answer):
            yield self.random.choice([1, 20, 100])
            return {}
        held: dict[int, list[tuple[int, bool]]] = {}
        for topic in answer.responses:
            for data in topic.partitions:
                if data.acquired_records:
                    held[data.partition_index] = self._read(data)
        return held

    def _read(self, data: Any) -> list[tuple[int, bool]]:
        there = {
            record.offset
            for header, batch in iter_batches(memoryview(data.records or b""))
            if not header.is_control
            for record in decode_records(batch)
        }
        ends = [header.last_offset for header, _ in iter_batches(memoryview(data.records or b""))]
        offsets = [
            offset
            for acquired in data.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        ]
        self.has_acquired += len(offsets)
        if offsets and (not ends or offsets[-1] > ends[-1]):
            raise HistoryError(f"{offsets[-1]} was handed out without its batch, which ends at {ends}")
        return [(offset, offset in there) for offset in offsets]

    def _decide(self, offsets: Sequence[tuple[int, bool]]) -> Ranges:
        """One word for all that lies together, or one for each offset."""
        kinds = [ACCEPT, ACCEPT, RELEASE, REJECT, RENEW]
        decided: Ranges = []
        as_one = self.accepts_all or self.random.random() < 0.5
        kind = ACCEPT if self.accepts_all else self.random.choice(kinds)
        for offset, is_there in offsets:
            if not as_one:
                kind = self.random.choice(kinds)
            said = kind if is_there else GAP
            if decided and decided[-1][1] == offset - 1:
                decided[-1] = (decided[-1][0], offset, [*decided[-1][2], said])
            else:
                decided.append((offset, offset, [said]))
        return [(first, last, said[:1] if len(set(said)) == 1 else said) for first, last, said in decided]

    def _acknowledge(self) -> Generator[Question | int, Any, None]:
        if self.session_epoch == _OPENS:
            return
        decided, self._decided = self._decided, {}
        batch = acknowledging.AcknowledgementBatch
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            is_renew_ack=any(RENEW in kinds for ranges in decided.values() for _, _, kinds in ranges),
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=partition, acknowledgement_batches=[batch(*each) for each in ranges]
                        )
                        for partition, ranges in decided.items()
                    ],
                )
            ]
            if decided
            else [],
        )
        answer = yield request, 2
        if not self._goes_on(answer):
            return
        for partition, ranges in decided.items():  # what was renewed is decided later
            renewed = [
                (first + place, True)
                for first, last, kinds in ranges
                for place in range(last - first + 1)
                if kinds[place if len(kinds) > 1 else 0] == RENEW
            ]
            if renewed:
                self._decided[partition] = [(offset, offset, [ACCEPT]) for offset, _ in renewed]

    def _goes_on(self, answer: Any) -> bool:
        """Update the session's epoch; return whether it continues. Without an answer its epoch is unknown, so the next
        request opens another.
        """
        if answer is None or answer.error_code or self.session_epoch == _CLOSES:
            self.session_epoch = _OPENS
            return False
        self.session_epoch += 1
        return True
