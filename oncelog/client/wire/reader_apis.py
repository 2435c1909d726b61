"""Requests used by consumers: records, and where to begin. Fetch (12) and OffsetFetch (9) stay at topic names."""

from oncelog.client.wire.apis import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    fetch_request,
    fetch_response,
    list_offsets_request,
    list_offsets_response,
    offset_fetch_request,
    offset_fetch_response,
)

FETCH = Api(ApiKey.FETCH, fetch_request.encode, fetch_response.decode, fetch_request.FLEXIBLE_FROM, 4, 12)
LIST_OFFSETS = Api(
    ApiKey.LIST_OFFSETS,
    list_offsets_request.encode,
    list_offsets_response.decode,
    list_offsets_request.FLEXIBLE_FROM,
    2,
    7,
)
OFFSET_FETCH = Api(
    ApiKey.OFFSET_FETCH,
    offset_fetch_request.encode,
    offset_fetch_response.decode,
    offset_fetch_request.FLEXIBLE_FROM,
    1,
    9,
)
