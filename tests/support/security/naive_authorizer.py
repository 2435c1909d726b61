"""The rules of StandardAuthorizer once more, without any index or cache: the oracle of property tests."""

from collections.abc import Iterable

from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType

_O = AclOperation
_IMPLIED_BY = {_O.DESCRIBE: {_O.READ, _O.WRITE, _O.DELETE, _O.ALTER}, _O.DESCRIBE_CONFIGS: {_O.ALTER_CONFIGS}}


def may(
    acls: Iterable[Acl], who: str, host: str, operation: AclOperation, kind: ResourceType, name: str, unruled: bool
) -> bool:
    covering = [acl for acl in acls if acl.resource_type == kind and _covers(acl, name)]
    mine = [acl for acl in covering if acl.principal in (who, "User:*") and acl.host in (host, "*")]
    for acl in mine:
        if acl.permission == Permission.DENY and acl.operation in (operation, _O.ALL):
            return False
    allowing = {operation, _O.ALL} | _IMPLIED_BY.get(operation, set())
    for acl in mine:
        if acl.permission == Permission.ALLOW and acl.operation in allowing:
            return True
    return unruled and not covering


def _covers(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def may_anywhere(acls: Iterable[Acl], who: str, host: str, operation: AclOperation, kind: ResourceType) -> bool:
    """Whether an allowed pattern is not covered by a denied one as a whole."""
    mine = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and acl.principal in (who, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, _O.ALL)
    ]
    denied = [acl for acl in mine if acl.permission == Permission.DENY]
    return any(acl.permission == Permission.ALLOW and not any(_includes(no, acl) for no in denied) for acl in mine)


def _includes(denied: Acl, allowed: Acl) -> bool:
    if denied.pattern_type == PatternType.PREFIXED:
        is_all = allowed.pattern_type == PatternType.LITERAL and allowed.resource_name == "*"
        return not is_all and allowed.resource_name.startswith(denied.resource_name)
    if denied.resource_name == "*":
        return True
    return allowed.pattern_type == PatternType.LITERAL and allowed.resource_name == denied.resource_name
