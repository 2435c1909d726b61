"""The topics that Kafka keeps for itself, by name and id, and the id that stands for none.

Owns: the names alone. Does not own: their settings (`broker.config.topic_config`), what lies in them.
"""

from uuid import UUID

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""What clients see and may not write to."""

METADATA_TOPIC = "__cluster_metadata"
"""KRaft's log (KIP-595): a topic by its files and by its id, never one that clients see."""
METADATA_TOPIC_ID = UUID("00000000-0000-0000-0000-000000000001")

ZERO_UUID = UUID(int=0)
"""No topic, no directory: Kafka's Uuid.ZERO_UUID."""
