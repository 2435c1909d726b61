"""The index of access control entries follows the metadata log, and looks at no more entries than it must."""

from uuid import UUID

import pytest

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.security.access_rules import AccessRules, entry_of, entry_record
from oncelog.protocol.acls import Acl, AclFilter, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord

TOPIC = ResourceType.TOPIC
ACLS = [
    Acl(TOPIC, name, pattern, "User:alice", "*", AclOperation.READ, Permission.ALLOW)
    for name, pattern in (("orders", PatternType.LITERAL), ("or", PatternType.PREFIXED), ("*", PatternType.LITERAL))
]


def _written(*acls: Acl) -> SecurityState:
    state = SecurityState()
    for number, acl in enumerate(acls):
        state.replay(entry_record(UUID(int=number), acl), 0)
    return state


def test_a_record_says_what_its_entry_says() -> None:
    for acl in ACLS:
        assert entry_of(entry_record(UUID(int=1), acl)) == acl


def test_only_the_entries_that_cover_a_name_are_looked_at() -> None:
    state = _written(*ACLS)
    rules = AccessRules(state)
    assert set(rules.covering(TOPIC, "orders")) == set(ACLS)
    assert set(rules.covering(TOPIC, "order")) == set(ACLS[1:])
    assert set(rules.covering(TOPIC, "o")) == {ACLS[2]}
    assert not set(rules.covering(ResourceType.GROUP, "orders"))
    state.replay(RemoveAccessControlEntryRecord(id=UUID(int=1)), 0)
    assert set(rules.covering(TOPIC, "order")) == {ACLS[2]}


def test_an_entry_that_was_written_twice_is_there_until_both_are_removed() -> None:
    state = _written(ACLS[1], ACLS[1])
    rules = AccessRules(state)
    for left in (1, 0):
        state.replay(RemoveAccessControlEntryRecord(id=UUID(int=left)), 0)
        assert (ACLS[1] in rules, len(rules), list(rules.covering(TOPIC, "orders"))) == (left, left, ACLS[1:2] * left)


def test_an_id_that_is_written_again_has_its_new_entry_only() -> None:
    state = _written(ACLS[0])
    rules = AccessRules(state)
    state.replay(entry_record(UUID(int=0), ACLS[2]), 0)
    assert rules.entries() == [(UUID(int=0), ACLS[2])]
    assert list(rules.covering(TOPIC, "orders")) == [ACLS[2]]


@pytest.mark.parametrize(
    ("name", "pattern", "selected"),
    [
        ("orders", PatternType.LITERAL, ["orders"]),
        ("orders", PatternType.ANY, ["orders"]),
        ("orders", PatternType.MATCH, ["orders", "or", "*"]),
        ("o", PatternType.MATCH, ["*"]),
        (None, PatternType.PREFIXED, ["or"]),
        ("*", PatternType.LITERAL, ["*"]),
    ],
)
def test_a_filter_selects_by_pattern_or_by_what_a_pattern_covers(
    name: str | None, pattern: PatternType, selected: list[str]
) -> None:
    wanted = AclFilter(resource_name=name, pattern_type=pattern)
    assert [acl.resource_name for acl in ACLS if wanted.matches(acl)] == selected
