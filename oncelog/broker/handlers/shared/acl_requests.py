"""What the three APIs of access control entries have in common: entries and filters as their messages write them.

Owns: the translation, and what Kafka refuses before any authorizer is asked. Does not own: entries, filters
(`oncelog.protocol.acls`).
"""

from enum import IntEnum
from typing import Final, Protocol, TypeVar

from oncelog.broker.requests.context import CloseConnection
from oncelog.protocol.acls import Acl, AclFilter, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_acls_request import AclCreation

MOST_CHANGES: Final = 10_000
"""The most changes of one request, as in Kafka's controller."""
NO_AUTHORIZER: Final = ErrorCode.SECURITY_DISABLED
EnumT = TypeVar("EnumT", bound=IntEnum)


class Filter(Protocol):
    """A filter: in DescribeAcls the request, in DeleteAcls a row of it."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def filter_of(asked: Filter) -> AclFilter:
    """Raises CloseConnection for a code 0, which Kafka takes for a damaged request."""
    return AclFilter(
        _known(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _known(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _known(AclOperation, asked.operation),
        _known(Permission, asked.permission_type),
    )


def entry_of(asked: AclCreation) -> Acl:
    """Raises CloseConnection as `filter_of`."""
    return Acl(
        _known(ResourceType, asked.resource_type),
        asked.resource_name,
        _known(PatternType, asked.resource_pattern_type),
        asked.principal,
        asked.host,
        _known(AclOperation, asked.operation),
        _known(Permission, asked.permission_type),
    )


def _known(kind: type[EnumT], code: int) -> EnumT:
    """Return the value of a code; UNKNOWN for one of a later version of Kafka."""
    if code == 0:
        raise CloseConnection(f"an access control entry without {kind.__name__}")
    return kind(code) if 0 < code < len(kind) else kind(0)


def is_unknown(wanted: AclFilter) -> bool:
    return 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
