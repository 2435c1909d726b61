"""The topics of the coordinators, which a leader among several nodes creates before a client needs them.

Owns: nothing. A client that asks a node that stands by for its coordinator creates no topic there, and would retry
forever. `__share_group_state` is not among them: members of share groups ask for the coordinator of their group, which
makes the topic when a group has its first member.
"""

from contextlib import suppress

from oncelog.broker.cluster.topics import Topics
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE


def maybe_create_coordinators(topics: Topics) -> None:
    """Create the missing topics of the coordinators. Failures are ignored, as this is called again and again."""
    for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        if topics.get(topic) is None:
            with suppress(KafkaError):  # the deletion of the one before is not durable yet
                topics.ensure_internal(topic)
