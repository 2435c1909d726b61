"""ApiVersions (18), versions 0–4: the APIs that this broker serves, and the finalized features.

- The response is the API table, nothing else: a range listed there works. Versions that Kafka may still change are
  listed and served if `unstable.api.versions.enable`, or the feature that needs them, is on.
- v3+: client_software_name and _version must match KIP-511's pattern, else INVALID_REQUEST.
- v3 leaves out supported features whose minimum is 0, which such clients would fail to parse (KAFKA-17492).
- Features of level 0 are never finalized; the epoch is ≥ 0 so that the Java client accepts it.

Left out: v5 (KIP-1242, Kafka 4.4).
"""

import re

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.peer.software_name = request.client_software_name
    state = context.broker.metadata.state
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=api.key,
                min_version=api.minimum if api.advertised_minimum is None else api.advertised_minimum,
                max_version=api.highest(context.broker.serves_unstable),
            )
            for api in API_TABLE.values()
        ],
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.minimum, max_version=feature.maximum)
            for feature in FEATURES.values()
            if feature.minimum > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=state.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in state.features.items()
            if level > 0
        ],
    )
