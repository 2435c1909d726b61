"""DeleteAcls (31), versions 1–3: SECURITY_DISABLED for each, Kafka's answer without an authorizer."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_acls_request import DeleteAclsRequest
from oncelog.protocol.generated.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse


def handle(_: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    text = "No Authorizer is configured."
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=text)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
