"""What a principal may do: the rules of Kafka's StandardAuthorizer (KIP-11, 290, 801).

Owns: decisions, their cache, which of them are audited. Does not own: entries (`broker.security.access_rules`), which
right a request needs (`broker.handlers.rights`).
Invariants
- A super user may do everything. Else one applicable DENY forbids, whatever is allowed. Else an ALLOW is needed; only
  for a resource that no entry covers, for anybody, `allow.everyone.if.no.acl.found` decides.
- Describe is implied by an ALLOW of Read, Write, Delete or Alter, DescribeConfigs by AlterConfigs. A DENY implies
  nothing.
- A cached decision is dropped in the turn in which an entry changes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from oncelog.broker.config.listeners import plain_address
from oncelog.broker.security.access_rules import AccessRules
from oncelog.broker.security.principal import Principal, parse_principal
from oncelog.protocol.acls import (
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

MOST_DECISIONS: Final = 10_000
"""How many decisions are cached. Measured: some 3 MB, and more than a busy broker's clients need at a time."""
_LONGEST_CACHED_NAME: Final = 249
"""The length of the longest topic name. A client without rights may ask for names of 32 KiB."""

_IMPLY: Final = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Operations that imply another one, where they are allowed."""


class Asked(NamedTuple):
    """A question to the authorizer. Without a name it is whether something is allowed on any resource of the type."""

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str | None


class Decision(NamedTuple):
    is_allowed: bool
    rule: str
    """The rule that decided, in Kafka's words."""


Audit = Callable[[Asked, Decision, str], None]
"""Called with each decision on a client's request, and the name of the API."""


class Authorizer:
    def __init__(
        self,
        rules: AccessRules,
        super_users: Sequence[Principal] = (),
        *,
        allows_unruled: bool = False,
        audit: Audit | None = None,
    ) -> None:
        self.rules = rules
        self._super_users = frozenset(super_users)
        self._default = Decision(True, "DefaultAllow") if allows_unruled else Decision(False, "DefaultDeny")
        self._audit = audit
        self._decisions: dict[Asked, Decision] = {}
        self._version = -1

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str | None,
        request: str | None = None,
    ) -> bool:
        """Whether the principal may do that from this host. `request` is what it has sent, for the audit; None if it
        has not tried: where rights are listed, or what it may not see is left out."""
        asked = Asked(principal, host, operation, resource_type, name)
        decision = self._decisions.get(asked)
        if decision is None or self.rules.version != self._version:
            decision = self._decide_anew(asked)
        if request is not None and self._audit is not None:
            self._audit(asked, decision, request)
        return decision.is_allowed

    def operations(self, principal: Principal, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the principal may do on this resource, as a bit set (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _decide_anew(self, asked: Asked) -> Decision:
        rules = self.rules
        if rules.version != self._version or len(self._decisions) >= MOST_DECISIONS:
            self._decisions.clear()
            self._version = rules.version
        decision = self._decide(rules, asked)
        if asked.name is None or len(asked.name) <= _LONGEST_CACHED_NAME:
            self._decisions[asked] = decision
        return decision

    def _decide(self, rules: AccessRules, asked: Asked) -> Decision:
        if asked.principal in self._super_users:
            return Decision(True, "SuperUser")
        if asked.name is None:
            return self._decide_for_any(rules, asked)
        is_covered, allowed = False, None
        who, host = _who(asked), _without_zone(asked.host)
        for acl in rules.covering(asked.resource_type, asked.name):
            is_covered = True
            if _concerns(acl, who, host) and _answers(acl, asked.operation):
                if acl.permission == Permission.DENY:
                    return Decision(False, _rule_text(acl))
                allowed = acl
        if allowed is not None:
            return Decision(True, _rule_text(allowed))
        return Decision(False, "DefaultDeny") if is_covered else self._default

    def _decide_for_any(self, rules: AccessRules, asked: Asked) -> Decision:
        """Decide whether something is allowed that no DENY covers entirely, as the default method of Kafka's Authorizer
        does."""
        somewhere = self._decide(rules, asked._replace(name="hardcode"))  # Kafka's own: for those who may everything
        if somewhere.is_allowed:
            return somewhere
        who, host = _who(asked), _without_zone(asked.host)
        concerning = [
            acl
            for acl in rules.of_type(asked.resource_type)
            if _concerns(acl, who, host) and acl.operation in (asked.operation, AclOperation.ALL)
        ]
        denied = {(acl.pattern_type, acl.resource_name) for acl in concerning if acl.permission == Permission.DENY}
        for acl in concerning:
            if acl.permission == Permission.ALLOW and denied.isdisjoint(_covering(acl)):
                return Decision(True, _rule_text(acl))
        return Decision(False, "DefaultDeny")


def _covering(acl: Acl) -> Iterator[tuple[int, str]]:
    """Yield the patterns that cover everything that the pattern of this entry covers."""
    yield PatternType.LITERAL, WILDCARD
    yield acl.pattern_type, acl.resource_name
    if (acl.pattern_type, acl.resource_name) != (PatternType.LITERAL, WILDCARD):
        for length in range(1, len(acl.resource_name) + 1):
            yield PatternType.PREFIXED, acl.resource_name[:length]


def _who(asked: Asked) -> tuple[str, str]:
    """Return the principals that entries may name to concern the client that asks."""
    return str(asked.principal), WILDCARD_PRINCIPAL


def _concerns(acl: Acl, who: tuple[str, str], host: str) -> bool:
    return acl.principal in who and (acl.host == WILDCARD or _without_zone(acl.host) == host)


def _answers(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (operation, AclOperation.ALL):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLY.get(operation, ())


def _without_zone(host: str) -> str:
    """Return an address as rules have it: a zone is a name on one machine only."""
    return plain_address(host.partition("%")[0])


def _rule_text(acl: Acl) -> str:
    return (
        f"{Permission(acl.permission).name} {AclOperation(acl.operation).name} to {acl.principal} from {acl.host}"
        f" on {ResourceType(acl.resource_type).name}:{PatternType(acl.pattern_type).name}:{acl.resource_name}"
    )


def parse_super_users(text: str) -> list[Principal]:
    """Parse `User:alice;User:bob`, Kafka's `super.users`: names may contain commas. Raises ValueError."""
    return [parse_principal(each.strip()) for each in text.split(";") if each.strip()]
