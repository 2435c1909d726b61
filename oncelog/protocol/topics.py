"""Kafka's internal topics, by name and id, and the id that means none.

Owns: only the names. Does not own: their settings (`broker.config.topic_config`), their contents.
"""

from uuid import UUID

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""The topics that are visible to clients and read-only for them."""

METADATA_TOPIC = "__cluster_metadata"
"""KRaft's log (KIP-595): it is a topic by its files and its id, and never visible to clients."""
METADATA_TOPIC_ID = UUID("00000000-0000-0000-0000-000000000001")

ZERO_UUID = UUID(int=0)
"""The id of no topic or directory: Kafka's Uuid.ZERO_UUID."""
