"""The one verdict on every change of the quorum's voters: Kafka's where `kraft.version` is 0 (KIP-853)."""

from uuid import UUID

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.topics import ZERO_UUID


def refusal(
    context: RequestContext, verb: str, cluster_id: str | None, voter_id: int, directory_id: UUID
) -> tuple[ErrorCode, str]:
    """Refuse to add or remove a voter; `verb` says which. A wrong cluster id is reported first: any change would be
    wrong there."""
    ours = context.broker.cluster_id
    if cluster_id is not None and cluster_id != ours:
        text = f'The given id "{cluster_id[:300]}" doesn\'t match the cluster id "{ours}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    if voter_id < 0 or directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter"
    doing = {"add": "adding", "remove": "removing"}[verb]
    text = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, text
