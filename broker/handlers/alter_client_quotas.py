"""AlterClientQuotas (49), versions 0–1: refused, since nothing here would keep a client to its quota (KIP-546).

Kafka takes it. To take it and do nothing would be worse than to say so.
"""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.alter_client_quotas_request import AlterClientQuotasRequest
from protocol.generated.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

_TEXT = "This broker has no client quotas: no client is ever throttled."


def handle(_: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    entries = []
    for entry in request.entries:
        entity = [EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
        entries.append(EntryData(error_code=ErrorCode.INVALID_REQUEST, error_message=_TEXT, entity=entity))
    return AlterClientQuotasResponse(entries=entries)
