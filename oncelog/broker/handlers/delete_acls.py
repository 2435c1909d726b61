"""DeleteAcls (31), versions 1–3: removes the access control entries that each filter selects (KIP-140, KIP-290).

- Each filter has its own result with what it removed; an entry that two filters select is in both.
- All of them are removed by one batch of the metadata log, in force in the turn in which it is appended; the response
  is sent once it is durable. More than 10,000 at a time: INVALID_REQUEST for every filter, and nothing is removed.
- A filter with a code of a later Kafka is INVALID_REQUEST.
"""

from uuid import UUID

from oncelog.broker.handlers.shared.acl_requests import MOST_CHANGES, NO_AUTHORIZER, filter_of, is_unknown
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.acls import Acl
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_acls_request import DeleteAclsRequest
from oncelog.protocol.generated.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord


def handle(context: RequestContext, request: DeleteAclsRequest) -> Sliced[DeleteAclsResponse]:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return _refuse_all(request, KafkaError(NO_AUTHORIZER, "No Authorizer is configured."))
    wanted = yield from each(request.filters, filter_of)
    removed: dict[UUID, None] = {}
    results = []
    for one in wanted:
        if is_unknown(one):
            results.append(_refusal(KafkaError(ErrorCode.INVALID_REQUEST, "Unknown filter.")))
            continue
        found = []
        for entry_id, acl in authorizer.rules.entries():
            yield 1
            if one.matches(acl) and authorizer.rules.has_id(entry_id):
                removed[entry_id] = None
                found.append(_match(acl))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=found))
    if len(removed) > MOST_CHANGES:
        text = f"Cannot remove more than {MOST_CHANGES} acls in a single delete operation."
        return _refuse_all(request, KafkaError(ErrorCode.INVALID_REQUEST, text))
    records = [RemoveAccessControlEntryRecord(id=entry_id) for entry_id in removed if authorizer.rules.has_id(entry_id)]
    written = context.broker.metadata.write(records) if records else context.broker.metadata.durable()
    yield written
    if isinstance(written.error, KafkaError):
        return _refuse_all(request, written.error)
    return DeleteAclsResponse(filter_results=results)


def _refuse_all(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_refusal(error)] * len(request.filters))


def _refusal(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=())


def _match(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
