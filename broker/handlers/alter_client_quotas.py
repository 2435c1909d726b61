"""AlterClientQuotas (49), versions 0–1: no quota can be set, since none would be enforced (KIP-546).

Kafka accepts quotas. Accepting them without effect would be worse than an error: INVALID_REQUEST.
- An invalid entity gets Kafka's message, and one that is named twice is rejected once.
- Requests that only remove succeed: as in Kafka, removing what was never set changes nothing.

Left out: whether the address of an `ip` can be resolved.
"""

from collections.abc import Mapping

from oncelog.broker.request import RequestContext
from oncelog.broker.slices import Sliced, count_each
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_client_quotas_request import AlterClientQuotasRequest
from oncelog.protocol.generated.alter_client_quotas_request import EntryData as Wanted
from oncelog.protocol.generated.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

_IP = "ip"
_ENTITY_TYPES = ("client-id", "user", _IP)
"""In the order in which Kafka names them."""
_NO_QUOTAS = "This broker has no client quotas: no client is ever throttled."

_Entity = tuple[tuple[str, str | None], ...]


def handle(_: RequestContext, request: AlterClientQuotasRequest) -> Sliced[AlterClientQuotasResponse]:
    counts = yield from count_each(map(_entity, request.entries))
    answers: dict[_Entity, EntryData] = {}
    for entry in request.entries:
        answers[_entity(entry)] = _answer(entry, counts[_entity(entry)] > 1)
        yield 4
    return AlterClientQuotasResponse(entries=list(answers.values()))


def _entity(entry: Wanted) -> _Entity:
    """Equal for the same parts in any order: what Kafka considers one entity."""
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    kinds = [kind for kind in _ENTITY_TYPES if kind in parts]
    kinds += sorted(parts.keys() - set(_ENTITY_TYPES))
    return tuple((kind, parts[kind]) for kind in kinds)


def _answer(entry: Wanted, is_named_twice: bool) -> EntryData:
    entity = dict(_entity(entry))
    problem = _wrong_with(entity)
    if is_named_twice or len({op.key for op in entry.ops}) < len(entry.ops):
        parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
        problem = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts[:300]}}})"
    elif problem is None and not all(op.remove for op in entry.ops):
        problem = _NO_QUOTAS
    return EntryData(
        error_code=ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST,
        error_message=problem,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
    )


def _wrong_with(entity: Mapping[str, str | None]) -> str | None:
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
    return None
