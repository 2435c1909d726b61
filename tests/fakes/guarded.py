"""A broker with an authorizer, and a client that begins without any right."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from oncelog.broker.security.access_rules import entry_record
from oncelog.protocol.acls import Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.fakes.broker import VirtualBroker

SETTINGS = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
HOST = "10.0.0.1"


class Guarded:
    def __init__(self, *settings: str) -> None:
        self.virtual = VirtualBroker(SETTINGS, "super.users=User:admin", *settings)
        self._ids: Iterator[int] = iter(range(1, 1_000))

    def allow(self, operation: AclOperation, kind: ResourceType, name: str, *, deny: bool = False) -> UUID:
        entry_id = UUID(int=next(self._ids))
        permission = Permission.DENY if deny else Permission.ALLOW
        acl = Acl(kind, name, PatternType.LITERAL, "User:ANONYMOUS", HOST, operation, permission)
        self.virtual.broker.metadata.write([entry_record(entry_id, acl)])
        self.virtual.time.settle()
        return entry_id

    def forbid(self, entry_id: UUID) -> None:
        self.virtual.broker.metadata.write([RemoveAccessControlEntryRecord(id=entry_id)])
        self.virtual.time.settle()

    def create(self, *names: str) -> None:
        for name in names:
            self.virtual.broker.topics.create(name, 1)
        self.virtual.time.settle()

    def ask(self, request: Any, version: int) -> Any:
        return self.virtual.send(request, version, host=HOST).message
