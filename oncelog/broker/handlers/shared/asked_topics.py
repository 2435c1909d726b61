"""Which topic a row of a request names: by its name or by its id, decided in one place.

Owns: that decision, which the rights and the handlers share, so that what is checked is what is answered (KIP-516).
Does not own: what an unknown topic is answered with.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from oncelog.broker.apis.table import TOPIC_IDS_SINCE
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.topics import ZERO_UUID


def names_by_id(context: RequestContext) -> bool:
    since = TOPIC_IDS_SINCE.get(context.api_key)
    return since is not None and context.api_version >= since


def asked_topic(context: RequestContext, row: Any) -> str | None:
    """Return the name of the topic that a row of this request stands for; None for an id that no topic has."""
    if not names_by_id(context):
        name: str = row.name
        return name
    topic = context.broker.topics.by_id(row.topic_id)
    return None if topic is None else topic.name


def asked_ids(rows: Sequence[Any]) -> list[UUID] | None:
    """Return the ids that a Metadata request asks for, each once, whatever names stand beside them, as in Kafka; None
    if it asks by name."""
    if all(row.name is not None and row.topic_id == ZERO_UUID for row in rows):
        return None
    return list(dict.fromkeys(row.topic_id for row in rows if row.topic_id != ZERO_UUID))
