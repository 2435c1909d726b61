"""Users, rules, quotas and tokens in the metadata log.

Owns: `SecurityState`, changed only by replaying a record. Does not own: what any of it means (`broker.security`), who
may change it. Imported with the first such record: a start without them does not pay for it.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated import (
    access_control_entry_record,
    client_quota_record,
    delegation_token_record,
    remove_access_control_entry_record,
    remove_delegation_token_record,
    remove_user_scram_credential_record,
    user_scram_credential_record,
)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted by type; None for the default of a type."""


class SecurityState:
    """The state that these records add up to."""

    def __init__(self) -> None:
        self.scram_credentials: dict[tuple[str, int], user_scram_credential_record.UserScramCredentialRecord] = {}
        """The credentials by user and mechanism: 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""
        self.acls: dict[UUID, access_control_entry_record.AccessControlEntryRecord] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, delegation_token_record.DelegationTokenRecord] = {}
        """Delegation tokens by id."""
        self._watchers: list[Callable[[Any], None]] = []

    def watch(self, on_record: Callable[[Any], None]) -> None:
        """Call this with each record, in the turn in which it is replayed."""
        self._watchers.append(on_record)

    def replay(self, record: Any, offset: int) -> None:
        """Apply one record; raises KafkaError(CORRUPT_MESSAGE) for any other."""
        match record:
            case user_scram_credential_record.UserScramCredentialRecord():
                self.scram_credentials[record.name, record.mechanism] = record
            case remove_user_scram_credential_record.RemoveUserScramCredentialRecord():
                self.scram_credentials.pop((record.name, record.mechanism), None)
            case access_control_entry_record.AccessControlEntryRecord():
                self.acls[record.id] = record
            case remove_access_control_entry_record.RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case client_quota_record.ClientQuotaRecord():
                self._replay_quota(record)
            case delegation_token_record.DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case remove_delegation_token_record.RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case _:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"unknown metadata record {record!r} at offset {offset}")
        for on_record in self._watchers:
            on_record(record)

    def _replay_quota(self, record: client_quota_record.ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        quotas = self.quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.quotas[entity]

    def records(self) -> Iterator[Any]:
        """Records that add up to the current state, even if it changes during the iteration."""
        quotas = [
            client_quota_record.ClientQuotaRecord(
                entity=[client_quota_record.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                key=key,
                value=value,
            )
            for entity, values in self.quotas.items()
            for key, value in values.items()
        ]
        return chain(
            list(self.scram_credentials.values()), list(self.acls.values()), quotas, list(self.tokens.values())
        )
