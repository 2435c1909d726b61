"""The roles of several nodes, and their take-overs: pure.

Owns: the meaning of a broker's description of its quorum for its nodes, the take-overs that were seen. Does not own:
requests (`reading`), markup (`overview.html`).
Only an oncelog broker that is one of several says since when it leads. A quorum of Apache Kafka has controllers that
may be no brokers, and brokers that follow without standing by: nothing is shown of it.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from oncelog.client.admin.descriptions import QuorumDescription, QuorumReplica

_MOST_TAKEOVERS = 20


@dataclass(frozen=True, slots=True)
class NodeRole:
    word: str
    """Its role: `leads`, `stands by`, `starts`, `gone`."""
    led_ms: int | None = None
    """The time for which it has led."""
    epoch: int = -1
    """The epoch in which it leads."""
    reason: str = ""
    """Why it leads."""
    silent_ms: int | None = None
    """The time since the leader last saw it."""
    rounds_behind: int = -1
    has_metadata: bool = False
    """Whether it has the whole metadata log."""


@dataclass(frozen=True, slots=True)
class Takeover:
    at_ms: int
    node_id: int
    epoch: int
    before: int
    """The node that was seen to lead before."""
    epoch_before: int
    reason: str


class Takeovers:
    """The take-overs between two looks of this console, the newest first. Restarts of a node that is alone are none."""

    def __init__(self) -> None:
        self._last: QuorumDescription | None = None
        self._seen: deque[Takeover] = deque(maxlen=_MOST_TAKEOVERS)

    @property
    def seen(self) -> Collection[Takeover]:
        return tuple(self._seen)

    def look(self, quorum: QuorumDescription) -> None:
        last, leader = self._last, _leader_of(quorum)
        if leader is None:
            return
        if last is not None and quorum.leader_epoch > last.leader_epoch and not _is_alone(last, quorum):
            self._seen.appendleft(
                Takeover(
                    leader.leading_since_ms,
                    leader.node_id,
                    quorum.leader_epoch,
                    last.leader_id,
                    last.leader_epoch,
                    leader.leading_reason,
                )
            )
        self._last = quorum


def _is_alone(before: QuorumDescription, after: QuorumDescription) -> bool:
    return before.leader_id == after.leader_id and not before.observers and not after.observers


def roles_of(node_ids: Collection[int], quorum: QuorumDescription, now_ms: int) -> Mapping[int, NodeRole]:
    """Return the roles of these nodes; none for a node that is alone, or for a broker that is not ours."""
    leader = _leader_of(quorum)
    if leader is None or not {leader.node_id} < {*node_ids}:
        return {}
    observers = {each.node_id: each for each in quorum.observers}
    roles = {each: NodeRole("gone") for each in node_ids}
    roles |= {each: _observer_role(observers[each], quorum, now_ms) for each in node_ids if each in observers}
    led_ms = max(0, now_ms - leader.leading_since_ms)
    return {**roles, leader.node_id: NodeRole("leads", led_ms, quorum.leader_epoch, leader.leading_reason)}


def _observer_role(observer: QuorumReplica, quorum: QuorumDescription, now_ms: int) -> NodeRole:
    return NodeRole(
        "starts" if observer.rounds_behind < 0 else "stands by",
        silent_ms=max(0, now_ms - observer.last_fetch_time_ms),
        rounds_behind=observer.rounds_behind,
        has_metadata=observer.log_end_offset >= quorum.high_watermark,
    )


def _leader_of(quorum: QuorumDescription) -> QuorumReplica | None:
    leader = quorum.leader
    return None if leader is None or leader.leading_since_ms < 0 else leader
