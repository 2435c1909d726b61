"""An administrator in simulation who changes the rules of a few topics, and a visitor whom they concern.

Owns: two promises, through every stop, with snapshots of the metadata between. A rule that was acknowledged is there
until its removal was asked for; and where no request can arrive late, one whose removal was acknowledged is gone. Each
request of the visitor is judged by the rules of the turn in which it is handled, as an authorizer without index, cache
or session judges them. No rule covers the topics of others, so that these stay open to everybody.
"""

from collections.abc import Generator, Iterator
from itertools import product
from random import Random
from typing import Any

from oncelog.broker.security.access_rules import entry_of
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_acls_request import AclCreation, CreateAclsRequest
from oncelog.protocol.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.clients.simulated import Life, Question
from tests.fakes.broker import VirtualBroker
from tests.simulation.broker_guardian import until_taken
from tests.simulation.log_auditor import AuditError
from tests.support.security.naive_authorizer import may

GUARDED = ("guarded-0", "guarded-1")
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
_HOST, _WHO = "10.0.0.1", "User:ANONYMOUS"
_O = AclOperation
_PATTERNS = (*((name, PatternType.LITERAL) for name in GUARDED), ("guarded", PatternType.PREFIXED))
_ANY = 1
_RULES = [
    Acl(ResourceType.TOPIC, name, pattern, who, host, operation, permission)
    for (name, pattern), who, host, operation, permission in product(
        _PATTERNS, (_WHO, "User:*"), (_HOST, "*"), (_O.READ, _O.WRITE, _O.ALL), (Permission.ALLOW, Permission.DENY)
    )
]


def changes_rules(random: Random, count: int, *, is_exact: bool) -> Life:
    """No rule comes a second time: a late request to remove the first would remove the second. `is_exact`: no request
    arrives late."""
    kept: list[Acl] = []
    for rule in random.sample(_RULES, count):
        yield from until_taken(_creation(rule), 3)
        kept.append(rule)
        for _ in range(random.randint(1, 3)):
            yield random.choice([0, 50, 400])
            yield from _expect(kept, is_exact)
        if len(kept) > 2 or random.random() < 0.5:
            yield from until_taken(_removal(kept.pop(random.randrange(len(kept)))), 3)


def _expect(kept: list[Acl], is_exact: bool) -> Generator[Question | int, Any, None]:
    request = DescribeAclsRequest(ResourceType.TOPIC, None, _ANY, None, None, _ANY, _ANY)
    answer = yield request, 3
    if answer is None:
        return
    found = {
        Acl(each.resource_type, each.resource_name, each.pattern_type, *_rest(acl))
        for each in answer.resources
        for acl in each.acls
    }
    if lost := [rule for rule in kept if rule not in found]:
        raise AuditError(f"acknowledged rules are gone: {lost}")
    if is_exact and len(found) > len(kept):
        raise AuditError(f"rules are there though their removal was acknowledged: {found.difference(kept)}")


def _rest(acl: Any) -> tuple[str, str, int, int]:
    return acl.principal, acl.host, acl.operation, acl.permission_type


def _creation(rule: Acl) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[AclCreation(*rule)])


def _removal(rule: Acl) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(*rule)])


class Visitor:
    """Asks about each guarded topic and reads it, over a session of its own; `maybe_ask` does one step of that."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._session: tuple[int, int] | None = None
        """Its id, and the epoch of the next request."""
        self.refused_count = 0
        self.admitted_count = 0

    def on_restart(self) -> None:
        self._session = None

    def maybe_ask(self, broker: VirtualBroker) -> None:
        """Raises AuditError."""
        if self._random.random() < 0.1:
            self._judge(broker, AclOperation.DESCRIBE, set(_refused_offsets(broker)))
            self._judge(broker, AclOperation.READ, set(self._refused_reads(broker)))

    def _judge(self, broker: VirtualBroker, operation: AclOperation, refused: set[str]) -> None:
        rules = [entry_of(record) for record in broker.broker.metadata.state.security.acls.values()]
        for topic in GUARDED:
            is_allowed = may(rules, _WHO, _HOST, operation, ResourceType.TOPIC, topic, unruled=True)
            if is_allowed is (topic in refused):
                raise AuditError(f"{operation.name} of {topic} is not judged by the rules of this turn: {rules}")
            self.admitted_count += is_allowed
            self.refused_count += not is_allowed

    def _refused_reads(self, broker: VirtualBroker) -> Iterator[str]:
        """A session answers only what is new, and errors."""
        session_id, epoch = self._session or (0, 0)
        partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)]
        topics = [] if epoch else [FetchTopic(topic=topic, partitions=partitions) for topic in GUARDED]
        answer = broker.ask(FetchRequest(session_id=session_id, session_epoch=epoch, max_wait_ms=0, topics=topics), 11)
        if answer.error_code:
            self._session = None
            yield from self._refused_reads(broker)
            return
        self._session = answer.session_id, epoch + 1
        for each in answer.responses:
            if each.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                yield each.topic


def _refused_offsets(broker: VirtualBroker) -> Iterator[str]:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [ListOffsetsTopic(name=topic, partitions=partitions) for topic in GUARDED]
    for each in broker.ask(ListOffsetsRequest(topics=topics), 5).topics:
        if each.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            yield each.name
