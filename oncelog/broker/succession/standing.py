"""The role of this process among the nodes, from one term to the next, for operators.

Owns: since when it leads or stands by and why, how often it has begun to lead, whether a standby follows soundly, how
far the others have followed, and the words for it. Does not own: the work of a node (`node`), how numbers are reported
(`observability`, `handlers.describe_quorum`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from oncelog.broker.storage.shared.lease import Free
from oncelog.broker.storage.shared.tables import NO_NODE, Lease, NodeRow
from oncelog.broker.succession.roster import Roster
from oncelog.broker.turns.ports import Clock

_SOUND_MS = 5_000
"""A standby that has followed since then could lead at once. A restart of PostgreSQL takes less."""


class Other(NamedTuple):
    """Another node that is at work, as the leader sees it."""

    node_id: int
    silent_ms: float
    """The time since it renewed its row."""
    rounds_behind: int
    """The number of rounds that it has not followed yet; −1 if it does not stand by yet."""
    metadata_end: int
    """The end of the metadata log in the rounds that it has followed; −1 if that is unknown."""


class Leading(NamedTuple):
    since_ms: float
    """The time since it began to lead."""
    reason: str
    others: Sequence[Other]


class Standing:
    def __init__(self, clock: Clock, node_id: int) -> None:
        self._clock = clock
        self._node_id = node_id
        self._roster: Roster | None = None
        self._is_leading = False
        self._takeover_count = 0
        self._reason = ""
        """Why it could take the lease."""
        self._metadata_end_at: Callable[[int], int] = lambda _: NO_NODE
        self._begun_at_ms = self._followed_at_ms = clock.monotonic_ms()
        self._followed = 0
        self._unsettled: str | None = "it does not know the leader yet"
        """Why it neither leads nor stands by."""
        self.log_fields: Mapping[str, Any] = {}
        """The fields of the log line with which it begins to lead or stand by."""

    def unsettle(self, reason: str) -> None:
        """Note that it neither leads nor stands by for now, and why."""
        self._unsettled = reason

    def stand_by(self, roster: Roster, leader: Lease) -> None:
        self._begin(roster, is_leading=False)
        self._followed_at_ms = self._clock.monotonic_ms()
        self.log_fields = {
            "leader": leader.node_id,
            "leader_epoch": leader.epoch,
            "message": f"stands by for {_name_of(leader)}, which has led for {_seconds(leader.held_ms)} s",
        }

    def on_followed(self, number: int) -> None:
        """Note that it knows the metadata log up to this round."""
        self._followed, self._followed_at_ms = number, self._clock.monotonic_ms()

    def lead(
        self, roster: Roster, epoch: int, before: Lease, free: Free, metadata_end_at: Callable[[int], int]
    ) -> None:
        """`before` is the lease of the leader before, and `free` is why it was taken. `metadata_end_at` returns where
        the metadata log ended in a round."""
        self._begin(roster, is_leading=True)
        self._takeover_count += 1
        self._reason, self._metadata_end_at = why_free(before, free, self._node_id), metadata_end_at
        self.log_fields = {
            "leader": self._node_id,
            "leader_epoch": epoch,
            "takeover": self._takeover_count,
            "message": f"leads from now on: {self._reason}",
        }

    def _begin(self, roster: Roster, *, is_leading: bool) -> None:
        self._roster, self._is_leading, self._unsettled = roster, is_leading, None
        self._begun_at_ms = self._clock.monotonic_ms()

    @property
    def seconds(self) -> float:
        """The time for which it has led, or stood by."""
        return (self._clock.monotonic_ms() - self._begun_at_ms) / 1000

    def figures(self) -> Mapping[str, float]:
        """Return the values by the names in the catalogue of metrics."""
        found: dict[str, float] = {"node_takeovers": self._takeover_count}
        if self._roster is None or self._unsettled is not None:
            return found
        found |= {
            "node_leads": int(self._is_leading),
            "node_others": sum(not each.is_gone for each in self._roster.nodes.others),
            "node_since_seconds": self.seconds,
        }
        if not self._is_leading:
            found["node_rounds_behind"] = max(0, self._roster.seen.newest - self._followed)
        return found

    @property
    def leading(self) -> Leading | None:
        """The figures of a leader; None unless it leads."""
        if self._roster is None or self._unsettled is not None or not self._is_leading:
            return None
        others = [self._other(self._roster, row) for row in self._roster.others if not row.is_over]
        return Leading(self._clock.monotonic_ms() - self._begun_at_ms, self._reason, others)

    def _other(self, roster: Roster, row: NodeRow) -> Other:
        silent_ms = roster.silent_ms(row)
        if row.followed == NO_NODE:
            return Other(row.node_id, silent_ms, NO_NODE, NO_NODE)
        rounds_behind = max(0, roster.seen.newest - row.followed)
        return Other(row.node_id, silent_ms, rounds_behind, self._metadata_end_at(row.followed))

    @property
    def trouble(self) -> str | None:
        """Why it neither leads nor stands by as it should; None if it does."""
        if self._unsettled is not None or self._is_leading:
            return self._unsettled
        silent_ms = self._clock.monotonic_ms() - self._followed_at_ms
        if silent_ms <= _SOUND_MS:
            return None
        return f"it stands by, and has not been able to follow the leader for {_seconds(silent_ms)} s"


def why_free(before: Lease, free: Free, node_id: int) -> str:
    """Return why the node with this id could take the lease. The time that was left of it says nothing: the clock of
    the database may have been set."""
    if not before.owner:
        return "no broker has led before"
    is_of_this_node = before.node_id == node_id != NO_NODE
    who = "an earlier start of this node" if is_of_this_node else _name_of(before)
    if free is Free.GIVEN_BACK:
        return f"{who} has {'handed over to this one' if before.successor == node_id else 'given the lease back'}"
    if is_of_this_node:
        return f"{who} has ended without giving the lease back"
    if free is Free.OVER:
        return f"{who} has not renewed its lease in time"
    return f"{who} has had no connection to PostgreSQL for a while"


def _name_of(lease: Lease) -> str:
    return f"the broker {lease.owner}" if lease.node_id == NO_NODE else f"node {lease.node_id}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f}"
