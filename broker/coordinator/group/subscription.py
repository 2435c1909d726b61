"""Which topics the members of a group read, as far as the broker may know.

Owns: reading `ConsumerProtocolSubscription` out of what members send when they join. To the broker that is opaque but
for this one question; what does not parse belongs to a client with a protocol of its own.
"""

from struct import Struct

from broker.coordinator.group.membership import Group
from protocol.errors import ProtocolError
from protocol.generated import consumer_protocol_subscription

CONSUMER = "consumer"
_VERSION = Struct(">h")


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Every topic that a member subscribes to; None for a group that is not one of consumers, or does not tell."""
    if group.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        for _, metadata in member.protocols:
            read = _topics(metadata)
            if read is None:
                return None
            topics.update(read)
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str] | None:
    if len(metadata) < _VERSION.size:
        return None
    # A later version only appends: what is known of it is read.
    version = min(_VERSION.unpack_from(metadata)[0], consumer_protocol_subscription.VERSIONS[-1])
    try:
        subscription, _ = consumer_protocol_subscription.decode(memoryview(metadata), version, _VERSION.size)
    except ProtocolError:
        return None
    return list(subscription.topics)
