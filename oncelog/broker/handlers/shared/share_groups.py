"""What the requests of share groups have in common (KIP-932).

Owns: whether they are served, and which member ids are valid. Does not own: the handlers.
"""

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.requests.context import RequestContext

_LONGEST_MEMBER_ID = 36
"""The length of a UUID as text, as in Kafka."""


def serves_share_groups(context: RequestContext) -> bool:
    return context.broker.metadata.state.features.get(SHARE_VERSION, 0) >= 1


def is_member_id(text: str | None) -> bool:
    return text is not None and 0 < len(text) <= _LONGEST_MEMBER_ID
