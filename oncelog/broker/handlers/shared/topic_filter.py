"""The topics that a client may know of, for what finds topics on its behalf: regular expressions of subscriptions.

Owns: the right that this takes, Describe. Does not own: the decision (`broker.security.authorizer`).
"""

from oncelog.broker.coordinator.group.engine.requests import TopicFilter
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.acls import AclOperation, ResourceType


def topic_filter(context: RequestContext) -> TopicFilter | None:
    """Return which topics the client may describe; None for all, without an authorizer."""
    authorizer, peer = context.broker.authorizer, context.peer
    if authorizer is None:
        return None
    principal, host = peer.principal, peer.host
    return lambda name: authorizer.allows(principal, host, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
