"""What the requests of share groups have in common (KIP-932).

Owns: whether they are served, which member ids are valid, the id of a topic in a response. Does not own: the handlers.
"""

from uuid import UUID

from oncelog.broker.cluster.features import SHARE_VERSION, is_on
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.topics import ZERO_UUID

_LONGEST_MEMBER_ID = 36
"""The length of a UUID as text, as in Kafka."""


def serves_share_groups(context: RequestContext) -> bool:
    return is_on(context.broker.metadata.state.features, SHARE_VERSION)


def is_member_id(text: str | None) -> bool:
    return text is not None and 0 < len(text) <= _LONGEST_MEMBER_ID


def topic_id_of(topics: Topics, name: str) -> UUID:
    """Return the topic's id, or the zero UUID if there is no such topic."""
    topic = topics.get(name)
    return ZERO_UUID if topic is None else topic.topic_id
