"""The witness's findings about late acknowledgements, in a broker that shares: by either request, and nothing else."""

from typing import Any

from oncelog.broker.witness.findings import Finding
from oncelog.protocol.errors import ErrorCode
from tests.clients.share_member import ACCEPT, RELEASE, RENEW, ShareMember, acknowledge_errors, errors
from tests.unit.sharing.world import GROUP, LOCK_MS, TOPIC, World

NONE = ErrorCode.NONE
NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


class Watched(World):
    def __init__(self) -> None:
        super().__init__("oncelog.witness.enable=true")

    @property
    def findings(self) -> tuple[Finding, ...]:
        assert self.broker.broker.witness is not None
        findings: tuple[Finding, ...] = self.broker.broker.witness.report().findings
        return findings

    def holding(self, count: int = 3) -> ShareMember:
        """A member that holds so many new records."""
        self.append(count)
        member = self.member()
        member.fetch(self.keys)
        return member

    def accept(self, member: ShareMember, first_offset: int, last_offset: int) -> ErrorCode:
        return errors(member.acknowledge({self.keys[0]: [(first_offset, last_offset, [ACCEPT])]}))[self.keys[0]]


def test_a_late_acknowledgement_is_reported_with_its_lateness_its_lock_and_what_to_change() -> None:
    """ShareAcknowledge reports it for the records that the member had held."""
    world = Watched()
    member = world.holding()
    world.let_pass(LOCK_MS + 1_500)
    assert world.accept(member, 0, 2) == ErrorCode.INVALID_RECORD_STATE
    (found,) = world.findings
    assert (found.kind, found.severity) == ("late-acknowledgement", "wrong")
    assert (found.topic, found.group, found.count) == (TOPIC, GROUP, 1)
    assert "records 0 to 2 of partition 0 1500 ms after the lock of 30000 ms ran out" in found.seen
    for what in ("Renew", "fewer records", "share.record.lock.duration.ms"):
        assert what in found.change


def test_a_late_acknowledgement_in_a_fetch_is_reported_too() -> None:
    """Most clients send theirs with the next fetch."""
    world = Watched()
    member = world.holding(1)
    world.let_pass(LOCK_MS + 1)
    response = member.fetch(acknowledged={world.keys[0]: [(0, 0, [ACCEPT])]})
    assert acknowledge_errors(response) == {world.keys[0]: ErrorCode.INVALID_RECORD_STATE}
    assert [(each.kind, "record 0 of" in each.seen) for each in world.findings] == [("late-acknowledgement", True)]


def test_acknowledgements_within_the_lock_are_not_reported() -> None:
    """Up to its last millisecond, in parts, and with a release in between."""
    world = Watched()
    member = world.holding()
    assert world.accept(member, 0, 0) == NONE
    world.let_pass(LOCK_MS - 1)
    response = member.acknowledge({world.keys[0]: [(1, 2, [RELEASE, ACCEPT])]})
    assert errors(response) == {world.keys[0]: NONE}
    assert world.findings == ()


def test_a_renewed_lock_counts_from_its_renewal() -> None:
    """Nothing is reported within the new time; after it the lateness is that of the renewed records."""
    world = Watched()
    member = world.holding()
    world.let_pass(LOCK_MS - 1)
    renewed = member.fetch(acknowledged={world.keys[0]: [(0, 2, [RENEW, RENEW, ACCEPT])]}, is_renew_ack=True, **NOTHING)
    assert acknowledge_errors(renewed) == {world.keys[0]: NONE}
    world.let_pass(LOCK_MS - 1)
    assert world.accept(member, 0, 0) == NONE
    assert not world.findings
    world.let_pass(8)
    assert world.accept(member, 1, 1) == ErrorCode.INVALID_RECORD_STATE
    (found,) = world.findings
    assert "record 1 of partition 0 7 ms after" in found.seen


def test_what_is_refused_for_another_reason_is_not_reported() -> None:
    """Acknowledged twice, held by another member, or never held: also when every lock would be over by now."""
    world = Watched()
    member, other = world.holding(3), world.member("other")
    other.fetch(world.keys)
    assert world.accept(other, 2, 2) == ErrorCode.INVALID_RECORD_STATE
    assert world.accept(member, 1, 1) == NONE
    assert world.accept(member, 1, 1) == ErrorCode.INVALID_RECORD_STATE
    world.let_pass(LOCK_MS + 1)
    world.append(1)
    other.fetch(world.keys)
    for offset in (1, 3):
        assert world.accept(member, offset, offset) == ErrorCode.INVALID_RECORD_STATE
    assert world.findings == ()


def test_a_record_that_is_handed_out_again_to_its_member_is_not_late() -> None:
    """The lock ran out, the member has been given the record once more, and acknowledges that."""
    world = Watched()
    member = world.holding(1)
    world.let_pass(LOCK_MS + 1)
    member.fetch()
    assert world.accept(member, 0, 0) == NONE
    assert world.findings == ()
