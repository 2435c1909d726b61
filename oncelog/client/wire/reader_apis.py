"""Requests used by consumers: records, and where to begin. Fetch (12) and OffsetFetch (9) stay at topic names."""

from oncelog.client.wire.apis import api_of
from oncelog.protocol.generated import (
    fetch_request,
    fetch_response,
    list_offsets_request,
    list_offsets_response,
    offset_fetch_request,
    offset_fetch_response,
)

FETCH = api_of(fetch_request, fetch_response, 4, 12)
LIST_OFFSETS = api_of(list_offsets_request, list_offsets_response, 2, 7)
OFFSET_FETCH = api_of(offset_fetch_request, offset_fetch_response, 1, 9)
