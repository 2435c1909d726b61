"""Members of a classic group in simulation: they join, share partitions, commit, are thrown out, die and are replaced.

Owns: what a member does, and what it notes: what it has in each generation, and its commits.
"""

from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.simulated import LEGS, Life, Question
from tests.history.events import Generation, GroupCommit, Outcome, Partition
from tests.history.recorder import Recorder

GROUP = "members"
SESSION_MS = 6_000
E = ErrorCode


@dataclass
class Member:
    recorder: Recorder
    random: Random
    member_id: str = ""
    generation: int = -1
    owns: tuple[Partition, ...] = ()

    def belongs(self, rounds: int) -> Life:
        """Joins again whenever it must; in the end it goes without a word."""
        for offset in range(rounds):
            while self.generation < 0:
                yield from self._join()
            # Sometimes longer than the others wait: they rebalance without this member.
            yield self.random.choice([50, 300, 1_000, 4_000])
            for partition in self.owns:
                yield from self._commit(partition, offset)
            beat = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
            answer = yield beat, 3
            if answer is not None:
                self._heed(answer.error_code)

    def _heed(self, code: int) -> bool:
        """Whether the response was a success; if not, the member has to join again, perhaps under a new id."""
        if code == E.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS):
            self.generation = -1
        return code == E.NONE

    def _join(self) -> Generator[Question | int, Any, None]:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=2_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = yield request, 5
        if joined is None:
            yield 20
            return
        if joined.error_code == E.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        if not self._heed(joined.error_code):
            yield 20
            return
        self.member_id = joined.member_id
        members = sorted(member.member_id for member in joined.members)
        shares = [SyncGroupRequestAssignment(member, share(place, members)) for place, member in enumerate(members)]
        syncing = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=shares,
        )
        synced = yield syncing, 3
        if synced is not None and self._heed(synced.error_code):
            self.generation = joined.generation_id
            self.owns = tuple(LEGS[place] for place in bytes(synced.assignment))
            seen = Generation(self.recorder.tick(), GROUP, self.generation, self.member_id, self.owns)
            self.recorder.history.generations.append(seen)

    def _commit(self, partition: Partition, offset: int) -> Generator[Question | int, Any, None]:
        data = OffsetCommitRequestPartition(partition_index=partition[1], committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=partition[0], partitions=[data])],
        )
        commit = GroupCommit(self.recorder.asked(), GROUP, partition, offset, self.member_id, self.generation)
        pending = self.recorder.begin(self.recorder.history.group_commits, commit)
        answer = yield request, 7
        if answer is not None:
            code = answer.topics[0].partitions[0].error_code
            is_taken = self._heed(code)
            # Lost after it was logged and before it was durable: the next coordinator may have it.
            refused = Outcome.UNKNOWN if code == E.NOT_COORDINATOR else Outcome.FAILED
            pending.done(Outcome.OK if is_taken else refused)


def share(place: int, members: list[str]) -> bytes:
    """The partitions of the member at this place, as the leader writes them."""
    return bytes(index for index in range(len(LEGS)) if index % len(members) == place)
