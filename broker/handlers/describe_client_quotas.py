"""DescribeClientQuotas (48), versions 0–1: no client has a quota (KIP-546)."""

from broker.dispatch import RequestContext
from protocol.generated.describe_client_quotas_request import DescribeClientQuotasRequest
from protocol.generated.describe_client_quotas_response import DescribeClientQuotasResponse


def handle(_: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    del request
    return DescribeClientQuotasResponse(error_message="", entries=())
