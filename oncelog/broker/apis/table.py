"""The APIs that this broker serves, by key: the single source for ApiVersions, the version gate and
docs/compare/compatibility.md.

A range is listed only if each of its versions is served; an API without an implementation on one node is listed if it
returns Kafka's own error.

As in Kafka the API version of a request implies its transaction version (KIP-890 part 2); the finalized feature
`transaction.version` decides where no client is involved. That is a table and not a function: Produce and EndTxn
compare with their constant, without a call.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.broker.apis import administration, clients
from oncelog.broker.apis.descriptor import Api
from oncelog.protocol.api_keys import ApiKey

_APIS = (
    *clients.CONNECTIONS,
    *clients.RECORDS,
    *clients.GROUPS,
    *clients.SHARING,
    *clients.TRANSACTIONS,
    *administration.TOPICS,
    *administration.SECURITY,
    *administration.CLUSTER,
    *administration.SHARE_GROUPS,
    *administration.SHARE_STATE,
)

API_TABLE: dict[int, Api] = {int(api.key): api for api in sorted(_APIS, key=lambda api: api.key)}

TRANSACTION_V2 = 2
"""The level of `transaction.version` from which on every EndTxn bumps the epoch."""

TRANSACTION_V2_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {api.key: api.transaction_v2_since for api in _APIS if api.transaction_v2_since is not None}
)
"""The first version of each API under transaction version 2; WriteTxnMarkers names the version of each marker."""

TOPIC_IDS_SINCE: Mapping[int, int] = MappingProxyType(
    {int(api.key): api.topic_ids_since for api in _APIS if api.topic_ids_since is not None}
)
"""The version from which on a topic is named by its id alone; other requests name topics, or say how for each."""
