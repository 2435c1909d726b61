"""The requests about access control lists (KIP-140).

Owns: the requests, Kafka's names as codes, and errors as exceptions. Does not own: the public methods (`client`, which
imports this at the first use), the rules as values (`descriptions`), what a rule means: that is the broker's.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from oncelog.client.admin.calls import ask_controller
from oncelog.client.admin.descriptions import Acl, AclFilter
from oncelog.client.values.errors import ConfigError, check_each, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol import acls
from oncelog.protocol.generated import (
    create_acls_request,
    create_acls_response,
    delete_acls_request,
    delete_acls_response,
    describe_acls_request,
    describe_acls_response,
)
from oncelog.protocol.generated.create_acls_request import AclCreation, CreateAclsRequest
from oncelog.protocol.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from oncelog.protocol.generated.delete_acls_response import DeleteAclsMatchingAcl
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest

_DESCRIBE_ACLS = api_of(describe_acls_request, describe_acls_response, 1, 3)
_CREATE_ACLS = api_of(create_acls_request, create_acls_response, 1, 3)
_DELETE_ACLS = api_of(delete_acls_request, delete_acls_response, 1, 3)


async def create(cluster: Cluster, rules: Sequence[Acl], deadline: Deadline) -> None:
    """Raises ConfigError for a name that Kafka does not have, and the error of the first rule that was refused."""
    check_each("create_acls", rules, Acl)
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=_code(acls.ResourceType, rule.resource_type),
                resource_name=rule.resource_name,
                resource_pattern_type=_code(acls.PatternType, rule.pattern_type),
                principal=rule.principal,
                host=rule.host,
                operation=_code(acls.AclOperation, rule.operation),
                permission_type=_code(acls.Permission, rule.permission),
            )
            for rule in rules
        ]
    )
    response = await ask_controller(cluster, _CREATE_ACLS, request, deadline)
    for rule, result in zip(rules, response.results, strict=True):
        raise_for(result.error_code, f"{rule}: {result.error_message or ''}")


async def describe(cluster: Cluster, wanted: AclFilter, deadline: Deadline) -> list[Acl]:
    """In order. Raises ConfigError for a name that Kafka does not have."""
    asked = _filter(wanted)
    request = DescribeAclsRequest(**{name: getattr(asked, name) for name in asked.FIELDS})
    response = await cluster.call_any(_DESCRIBE_ACLS, request, deadline)
    raise_for(response.error_code, response.error_message or "")
    return _in_order(
        _rule(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    )


async def delete(cluster: Cluster, filters: Sequence[AclFilter], deadline: Deadline) -> list[Acl]:
    """The deleted rules, each once, in order. Raises ConfigError for a name that Kafka does not have."""
    check_each("delete_acls", filters, AclFilter)
    request = DeleteAclsRequest(filters=[_filter(wanted) for wanted in filters])
    response = await ask_controller(cluster, _DELETE_ACLS, request, deadline)
    found: dict[Acl, None] = {}
    for result in response.filter_results:
        raise_for(result.error_code, result.error_message or "")
        for match in result.matching_acls:
            raise_for(match.error_code, match.error_message or "")
            found[_matched(match)] = None
    return _in_order(found)


def _matched(match: DeleteAclsMatchingAcl) -> Acl:
    return _rule(
        match.resource_type,
        match.resource_name,
        match.pattern_type,
        match.principal,
        match.host,
        match.operation,
        match.permission_type,
    )


def _filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=_code(acls.ResourceType, wanted.resource_type),
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=_code(acls.PatternType, wanted.pattern_type),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=_code(acls.AclOperation, wanted.operation),
        permission_type=_code(acls.Permission, wanted.permission),
    )


def _rule(kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    return Acl(
        principal,
        _name(acls.AclOperation, operation),
        _name(acls.ResourceType, kind),
        name,
        _name(acls.PatternType, pattern),
        _name(acls.Permission, permission),
        host,
    )


def _in_order(rules: Iterable[Acl]) -> list[Acl]:
    return sorted(rules, key=lambda rule: (rule.resource_type, rule.resource_name, rule.pattern_type, str(rule)))


def _code(kind: type[IntEnum], name: str) -> int:
    known = {each.name for each in kind if each.value}
    if name not in known:
        raise ConfigError(f"{name!r} is no {kind.__name__}", hint=f"one of {', '.join(sorted(known))}")
    return int(kind[name])


def _name(kind: type[IntEnum], code: int) -> str:
    """Return the name of a code; UNKNOWN for one of a later version of Kafka."""
    return kind(code if code in {each.value for each in kind} else 0).name
