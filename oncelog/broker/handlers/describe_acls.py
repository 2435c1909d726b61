"""DescribeAcls (29), versions 1–3: the access control entries that a filter selects (KIP-140, KIP-290).

- Entries of one resource are in one row, in the order in which they were created.
- SECURITY_DISABLED without an authorizer, as in Kafka. A filter with a code of a later Kafka selects nothing.
"""

from oncelog.broker.handlers.shared.acl_requests import NO_AUTHORIZER, filter_of
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest
from oncelog.protocol.generated.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(context: RequestContext, request: DescribeAclsRequest) -> Sliced[DescribeAclsResponse]:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return DescribeAclsResponse(error_code=NO_AUTHORIZER, error_message="No Authorizer is configured on the broker")
    wanted = filter_of(request)
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    for _, acl in authorizer.rules.entries():
        yield 1
        if wanted.matches(acl):
            found.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
    resources = [
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
        for (kind, name, pattern), acls in found.items()
    ]
    return DescribeAclsResponse(error_message=None, resources=resources)
