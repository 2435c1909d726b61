"""DescribeClientQuotas (48), versions 0–1: the quotas of users, client ids and addresses (KIP-546).

- A component matches an entity's part by its name, as the default, or by any name. Strictly: an entity has no further
  parts.
- An invalid filter is rejected as by Kafka: an entity type that does not exist is UNSUPPORTED_VERSION, anything else
  INVALID_REQUEST.
"""

from collections.abc import Mapping, Sequence

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from oncelog.protocol.generated.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_IP = "ip"
_ENTITY_TYPES = ("user", "client-id", _IP)
_EXACT, _ANY = 0, 2
_WITHOUT_MATCH = {1: "MATCH_TYPE_DEFAULT", _ANY: "MATCH_TYPE_SPECIFIED"}


def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> Sliced[DescribeClientQuotasResponse]:
    try:
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = []
    for entity, values in list(context.broker.metadata.state.security.quotas.items()):
        if _matches(request, dict(entity)):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
        yield 1
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _matches(request: DescribeClientQuotasRequest, entity: Mapping[str, str | None]) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    return all(
        wanted.entity_type in entity and (wanted.match_type == _ANY or entity[wanted.entity_type] == wanted.match)
        for wanted in request.components
    )


def _check(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if kind in seen:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind not in _ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind[:300]}")
        seen.add(kind)
        _check_match(component)
    if _IP in seen and len(seen) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )


def _check_match(component: ComponentData) -> None:
    if component.match_type == _EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return
    name = _WITHOUT_MATCH.get(component.match_type)
    if name is None:
        raise _invalid(f"Unknown match type {component.match_type}")
    if component.match is not None:
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
