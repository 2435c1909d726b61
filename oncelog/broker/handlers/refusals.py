"""The APIs without an implementation on this broker: each request gets one error, Kafka's where it has the feature
switched off, in the field where Kafka sets it.

Owns: the error, the text and the field of each. Does not own: their versions (`broker.apis.table`), responses that
depend on the request (separate modules).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from oncelog.broker.dispatch import ELEMENTS_AT_ONCE
from oncelog.broker.handlers.shared.error_places import Place, Rows, response_with
from oncelog.broker.request import RequestContext
from oncelog.broker.slices import Sliced
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

MOST_ELEMENTS = ELEMENTS_AT_ONCE
"""More rows would only be rejected too."""


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None = None
    place: Place = ()
    others: Mapping[str, Any] = MappingProxyType({})
    """Fields that Kafka sets besides the error."""


def handle(context: RequestContext, request: Any) -> Sliced[Any]:
    refusal = REFUSALS[context.api_key]
    said = {"error_code": refusal.error, **refusal.others}
    if refusal.message is not None:
        said["error_message"] = refusal.message
    return (yield from response_with(context.api_key, request, refusal.place, **said))


def _each_group(asked: str, kind: str) -> Refusal:
    return Refusal(ErrorCode.UNSUPPORTED_VERSION, place=(Rows(asked, "groups", kind, ("group_id",)),))


def _each_partition(doing: str, kind: str) -> Refusal:
    topics = Rows("topics", "results", kind, ("topic_id",))
    partitions = Rows("partitions", "partitions", "PartitionResult", ("partition",))
    text = f"Unable to {doing}: {ErrorCode.NOT_COORDINATOR.text}"
    return Refusal(ErrorCode.NOT_COORDINATOR, text, (topics, partitions))


_UNSUPPORTED = Refusal(ErrorCode.UNSUPPORTED_VERSION)
_UNSUPPORTED_WITH_TEXT = Refusal(ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION.text)

REFUSALS: dict[int, Refusal] = {
    # As Kafka where `share.version` is 0 (KIP-932): requests of share consumers and of tools for their groups.
    ApiKey.SHARE_GROUP_HEARTBEAT: _UNSUPPORTED,
    ApiKey.SHARE_GROUP_DESCRIBE: _each_group("group_ids", "DescribedGroup"),
    ApiKey.SHARE_FETCH: _UNSUPPORTED,
    ApiKey.SHARE_ACKNOWLEDGE: _UNSUPPORTED,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _each_group("groups", "DescribeShareGroupOffsetsResponseGroup"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _UNSUPPORTED_WITH_TEXT,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _UNSUPPORTED_WITH_TEXT,
    # Likewise: requests of a group coordinator to a share coordinator. There is none (KIP-932).
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _each_partition("initialize share group state", "InitializeStateResult"),
    ApiKey.READ_SHARE_GROUP_STATE: _each_partition("read share group state", "ReadStateResult"),
    ApiKey.WRITE_SHARE_GROUP_STATE: _each_partition("write share group state", "WriteStateResult"),
    ApiKey.DELETE_SHARE_GROUP_STATE: _each_partition("delete share group state", "DeleteStateResult"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _each_partition("read share group state summary", "ReadStateSummaryResult"),
    # As Kafka where `streams.version` is 0 (KIP-1071).
    ApiKey.STREAMS_GROUP_HEARTBEAT: Refusal(ErrorCode.UNSUPPORTED_VERSION, others={"status": ()}),
    ApiKey.STREAMS_GROUP_DESCRIBE: _each_group("group_ids", "DescribedGroup"),
}
