"""The authorizer decides as Kafka's StandardAuthorizer, and no decision outlives the entries that it follows from."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.security import authorizer as module
from oncelog.broker.security.access_rules import AccessRules, entry_record
from oncelog.broker.security.authorizer import Asked, Authorizer, Decision, parse_super_users
from oncelog.broker.security.principal import Principal
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.support.security.naive_authorizer import may, may_anywhere

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
READ, TOPIC = AclOperation.READ, ResourceType.TOPIC


def _acl(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: Permission = Permission.ALLOW,
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    who: str = "User:alice",
    host: str = "*",
) -> Acl:
    return Acl(kind, name, pattern, who, host, operation, permission)


def _rules(*acls: Acl) -> AccessRules:
    state = SecurityState()
    for number, acl in enumerate(acls):
        state.replay(entry_record(UUID(int=number), acl), 0)
    return AccessRules(state)


_NAMES = st.sampled_from(("a", "ab", "abc", "b", "*", "hardcode"))
_OPERATIONS = st.sampled_from([each for each in AclOperation if each > AclOperation.ANY])
_KINDS = st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP))
_HOSTS = st.sampled_from((HOST, "10.0.0.2"))
_ACLS = st.builds(
    Acl,
    _KINDS,
    _NAMES,
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(("User:alice", "User:bob", "User:*")),
    st.sampled_from((HOST, "*")),
    _OPERATIONS,
    st.sampled_from((Permission.DENY, Permission.ALLOW)),
)
_ASKABLE = st.sampled_from([each for each in AclOperation if each > AclOperation.ALL])


@given(
    st.lists(_ACLS, max_size=8, unique=True), st.lists(st.booleans(), min_size=8, max_size=8), st.booleans(), st.data()
)
def test_every_decision_is_the_naive_ones_after_every_change(
    acls: list[Acl], stay: list[bool], unruled: bool, data: st.DataObject
) -> None:
    """KAFKA-13697: a rule for all operations was none; and whatever else may go wrong with them."""
    state = SecurityState()
    authorizer = Authorizer(AccessRules(state), allows_unruled=unruled)

    def check(current: list[Acl]) -> None:
        operation, kind, name, host = data.draw(st.tuples(_ASKABLE, _KINDS, _NAMES, _HOSTS))
        for _ in ("decided", "cached"):
            decided = authorizer.allows(ALICE, host, operation, kind, name)
            assert decided == may(current, "User:alice", host, operation, kind, name, unruled)
        anywhere = authorizer.allows(ALICE, host, operation, kind, None)
        hardcode = may(current, "User:alice", host, operation, kind, "hardcode", unruled)
        assert anywhere == (hardcode or may_anywhere(current, "User:alice", host, operation, kind))

    for number, acl in enumerate(acls):
        state.replay(entry_record(UUID(int=number), acl), 0)
        check(acls[: number + 1])
    left = dict(enumerate(acls))
    for number, stays in zip(tuple(left), stay, strict=False):
        if not stays:
            state.replay(RemoveAccessControlEntryRecord(id=UUID(int=number)), 0)
            del left[number]
            check(list(left.values()))


@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.DENY])
def test_a_prefix_is_not_hidden_by_another_one_between(permission: Permission) -> None:
    """KAFKA-14265: the search for `foobar` ended at `fooa`, and did not see `f`."""
    rules = [_acl("f", permission=permission, pattern=PatternType.PREFIXED)]
    rules += [_acl(name, AclOperation.ALTER, pattern=PatternType.PREFIXED) for name in ("foobar", "fooa")]
    if permission == Permission.DENY:
        rules.append(_acl("foobar"))
    assert Authorizer(_rules(*rules)).allows(ALICE, HOST, READ, TOPIC, "foobar") is (permission == Permission.ALLOW)


def test_super_users_may_do_what_is_denied() -> None:
    rules = _rules(_acl("*", AclOperation.ALL, Permission.DENY, who="User:*"))
    authorizer = Authorizer(rules, parse_super_users("User:root; User:alice"))
    assert authorizer.allows(ALICE, HOST, READ, TOPIC, "orders")
    assert not authorizer.allows(BOB, HOST, READ, TOPIC, "orders")


def test_names_of_super_users_may_contain_commas_and_colons() -> None:
    assert parse_super_users("User:CN=a,O=b:c;;") == [Principal("User", "CN=a,O=b:c")]


@pytest.mark.parametrize("client", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_a_client_at_a_socket_for_both_families_has_its_ipv4_address(client: str) -> None:
    authorizer = Authorizer(_rules(_acl(host="127.0.0.1")))
    assert authorizer.allows(ALICE, client, READ, TOPIC, "orders")


def test_an_address_is_the_same_however_java_and_python_write_it() -> None:
    authorizer = Authorizer(_rules(_acl(host="0:0:0:0:0:0:0:1")))
    assert authorizer.allows(ALICE, "::1", READ, TOPIC, "orders")
    assert not authorizer.allows(ALICE, "::2", READ, TOPIC, "orders")


def test_operations_are_the_bits_that_kafka_returns() -> None:
    everything = Authorizer(_rules(), allows_unruled=True)
    bits = {kind: everything.operations(ALICE, HOST, kind, "x") for kind in (TOPIC, ResourceType.GROUP)}
    assert bits == {TOPIC: 3576, ResourceType.GROUP: 3400}
    assert everything.operations(ALICE, HOST, ResourceType.CLUSTER, "kafka-cluster") == 8096
    reader = Authorizer(_rules(_acl()))
    assert reader.operations(ALICE, HOST, TOPIC, "orders") == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE


def test_only_what_was_tried_is_audited_also_when_the_decision_is_cached() -> None:
    told: list[tuple[Asked, Decision, str]] = []
    authorizer = Authorizer(_rules(), audit=lambda *line: told.append(line))
    for request in ("FETCH", None, "FETCH"):
        assert not authorizer.allows(ALICE, HOST, READ, TOPIC, "orders", request)
    assert told == [(Asked(ALICE, HOST, READ, TOPIC, "orders"), Decision(False, "DefaultDeny"), "FETCH")] * 2


@pytest.mark.interpreted
def test_the_cache_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DECISIONS", 10)
    authorizer = Authorizer(_rules())
    for number in range(100):
        authorizer.allows(ALICE, HOST, READ, TOPIC, str(number))
        assert len(authorizer._decisions) <= 10


def test_names_that_no_resource_has_are_not_kept() -> None:
    """A client without rights may send 32 KiB of them with each request, and each character may take four bytes."""
    authorizer = Authorizer(_rules())
    for number in range(100):
        assert not authorizer.allows(ALICE, HOST, READ, TOPIC, f"{number}" + "\N{PARTY POPPER}" * 8_000, "FETCH")
    assert not authorizer._decisions
    authorizer.allows(ALICE, HOST, READ, TOPIC, "a" * 249)
    assert len(authorizer._decisions) == 1
