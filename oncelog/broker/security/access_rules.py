"""The access control entries of the cluster, by the resources that they cover.

Owns: which entries cover a resource, and what was the last change. Does not own: which entries there are
(`broker.cluster.security_state`), what they decide (`broker.security.authorizer`), which may be written
(`broker.handlers.create_acls`).
Invariant: follows each record in the turn in which it is replayed; `version` grows with it, so that no decision
outlives its entries.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.protocol.acls import WILDCARD, Acl, PatternType
from oncelog.protocol.generated.access_control_entry_record import AccessControlEntryRecord
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord

_Pattern = tuple[int, int, str]
"""A pattern: the type of the resource, the type of the pattern, the name."""


class AccessRules:
    def __init__(self, state: SecurityState) -> None:
        self.version = 0
        self._by_id: dict[UUID, Acl] = {}
        self._by_pattern: dict[_Pattern, dict[UUID, Acl]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        """The number of patterns with a prefix of each length, by type of the resource: only those lengths are looked
        up."""
        for record in state.acls.values():
            self._put(record.id, entry_of(record))
        state.watch(self._on_record)

    def _on_record(self, record: Any) -> None:
        match record:
            case AccessControlEntryRecord():
                self._drop(record.id)
                self._put(record.id, entry_of(record))
            case RemoveAccessControlEntryRecord():
                self._drop(record.id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._by_pattern.get(_pattern_of(acl), {}).values()

    def has_id(self, entry_id: UUID) -> bool:
        return entry_id in self._by_id

    def entries(self) -> list[tuple[UUID, Acl]]:
        """Return all entries in the order in which they were written."""
        return list(self._by_id.items())

    def covering(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the entries whose pattern covers this resource: its name, a prefix of it, or all names."""
        literal = PatternType.LITERAL
        yield from self._by_pattern.get((resource_type, literal, name), {}).values()
        if name != WILDCARD:
            yield from self._by_pattern.get((resource_type, literal, WILDCARD), {}).values()
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._by_pattern.get((resource_type, PatternType.PREFIXED, name[:length]), {}).values()

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        return (acl for acl in self._by_id.values() if acl.resource_type == resource_type)

    def _put(self, entry_id: UUID, acl: Acl) -> None:
        self.version += 1
        self._by_id[entry_id] = acl
        pattern = _pattern_of(acl)
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = {}
            self._count_prefix(acl, 1)
        self._by_pattern[pattern][entry_id] = acl

    def _drop(self, entry_id: UUID) -> None:
        acl = self._by_id.pop(entry_id, None)
        if acl is None:
            return
        self.version += 1
        pattern = _pattern_of(acl)
        del self._by_pattern[pattern][entry_id]
        if not self._by_pattern[pattern]:
            del self._by_pattern[pattern]
            self._count_prefix(acl, -1)

    def _count_prefix(self, acl: Acl, change: int) -> None:
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
            lengths[len(acl.resource_name)] += change
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]


def _pattern_of(acl: Acl) -> _Pattern:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def entry_record(entry_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=entry_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def entry_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
