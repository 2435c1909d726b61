"""DescribeAcls (29), versions 1–3: SECURITY_DISABLED, Kafka's answer without an authorizer."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest
from oncelog.protocol.generated.describe_acls_response import DescribeAclsResponse


def handle(_: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    del request
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
