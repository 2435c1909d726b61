"""AlterClientQuotas (49), versions 0–1: set and remove quotas of users, client ids and addresses (KIP-546).

- Each entity has its own result; all of its changes are taken, or none. One that is named twice is rejected, whole,
  where Kafka takes the first and reports an error. So is a value that is not a number, which Kafka takes.
- Removing what was never set succeeds, whatever its name. What does not change is not written.
- An `ip` is an address: Kafka also resolves names, which can take seconds.
- `validate_only` decides and writes nothing. The response is sent once durable; a change counts at once.
"""

from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from math import isnan
from typing import Any

from oncelog.broker.config.config_key import INT32_MAX, INT64_MAX
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.requests.throttling import quotas_of
from oncelog.broker.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from oncelog.broker.turns.slices import Sliced, count_each, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from oncelog.protocol.generated.alter_client_quotas_request import EntryData as Wanted
from oncelog.protocol.generated.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from oncelog.protocol.generated.client_quota_record import ClientQuotaRecord
from oncelog.protocol.generated.client_quota_record import EntityData as RecordedEntity

_IP = "ip"
_ENTITY_TYPES = ("client-id", "user", _IP)
"""The types of entities, in the order in which Kafka names them."""
_OF_CLIENTS: Mapping[str, tuple[str, int] | None] = {
    PRODUCER_BYTE_RATE: ("LONG", INT64_MAX),
    CONSUMER_BYTE_RATE: ("LONG", INT64_MAX),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The type and maximum of each quota of clients in Kafka; None for those that may have a fraction."""
_OF_ADDRESSES: Mapping[str, tuple[str, int] | None] = {CONNECTION_CREATION_RATE: ("INT", INT32_MAX)}
_WHOLE_WITHIN = 1e-6
_RECORDS_AT_ONCE = 500

_Entity = tuple[tuple[str, str | None], ...]


def handle(context: RequestContext, request: AlterClientQuotasRequest) -> Sliced[AlterClientQuotasResponse]:
    try:
        return (yield from _alter(context, request))
    except KafkaError as error:  # what was written before it changes nothing when it is asked for again
        refusal = partial(_answer, problem=error.message, code=error.code)
    return AlterClientQuotasResponse(entries=(yield from each(dict.fromkeys(map(_entity, request.entries)), refusal)))


def _alter(context: RequestContext, request: AlterClientQuotasRequest) -> Sliced[AlterClientQuotasResponse]:
    counts = yield from count_each(map(_entity, request.entries))
    metadata = context.broker.metadata
    answers: dict[_Entity, EntryData] = {}
    records: list[ClientQuotaRecord] = []
    for entry in request.entries:
        entity = _entity(entry)
        problem = _wrong_with(entity, entry, counts[entity] > 1)
        answers[entity] = _answer(entity, problem)
        if problem is None and not request.validate_only:
            quotas_of(context.broker)  # before the first is set, so that it counts from then on
            records += _changes(entity, entry, metadata.state.security.quotas.get(tuple(sorted(entity)), {}))
        if len(records) >= _RECORDS_AT_ONCE:
            written = metadata.write(records)
            if written.error is not None:
                raise written.error
            records = []
        yield 4
    # Without a change too: it may be a repetition of one that is not durable yet.
    written = metadata.write(records) if records else metadata.durable()
    if not written.done:
        yield written
    written.result()
    return AlterClientQuotasResponse(entries=list(answers.values()))


def _entity(entry: Wanted) -> _Entity:
    """Return what Kafka considers one entity: it is equal for the same parts in any order."""
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    kinds = [kind for kind in _ENTITY_TYPES if kind in parts]
    kinds += sorted(parts.keys() - set(_ENTITY_TYPES))
    return tuple((kind, parts[kind]) for kind in kinds)


def _changes(entity: _Entity, entry: Wanted, current: Mapping[str, float]) -> list[ClientQuotaRecord]:
    named = [RecordedEntity(entity_type=kind, entity_name=name) for kind, name in entity]
    return [
        ClientQuotaRecord(entity=named, key=op.key, value=0.0 if op.remove else op.value, remove=op.remove)
        for op in entry.ops
        if (op.key in current if op.remove else current.get(op.key) != op.value)
    ]


def _answer(entity: _Entity, problem: str | None, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> EntryData:
    return EntryData(
        error_code=ErrorCode.NONE if problem is None else code,
        error_message=problem,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _wrong_with(entity: _Entity, entry: Wanted, is_named_twice: bool) -> str | None:
    if is_named_twice or len({op.key for op in entry.ops}) < len(entry.ops):
        parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
        return f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts[:300]}}})"
    problem = _wrong_with_entity(dict(entity))
    if problem is None:
        keys = _OF_ADDRESSES if entity[0][0] == _IP else _OF_CLIENTS
        problems = (_wrong_with_value(keys, op) for op in entry.ops if not op.remove)
        problem = next((each for each in problems if each is not None), None)
    return problem


def _wrong_with_entity(entity: Mapping[str, Any]) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in _ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind[:300]}"
        if name == "":
            return f"Empty {kind} not supported"
    if _IP in entity and len(entity) > 1:
        # Kafka's words, spelling included: tools compare them.
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    if entity.get(_IP) is not None and not _is_address(entity[_IP]):
        return f"{entity[_IP][:300]} is not a valid IP or resolvable host."
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _wrong_with_value(keys: Mapping[str, tuple[str, int] | None], op: OpData) -> str | None:
    if op.key not in keys:
        return f"Invalid configuration key {op.key[:300]}"
    if not op.value > 0:
        what = "a number" if isnan(op.value) else "greater than 0"
        return f"Quota {op.key} must be {what}"
    whole = keys[op.key]
    if whole is not None:
        kind, most = whole
        if op.value > most:
            return f"Proposed value for {op.key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
        if op.value % 1.0 > _WHOLE_WITHIN:
            return f"{op.key} cannot be a fractional value."
    return None
