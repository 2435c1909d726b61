"""The subjects of a request: the transactional ids and the partitions that it names, in any API.

Owns: where requests have them. Needed only while a rule is planted, so found by field name and not per API.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from oncelog.broker.cluster.topics import Topics
from oncelog.protocol.message import Message
from oncelog.protocol.topics import ZERO_UUID

_INDEXES = ("index", "partition_index", "partition")


def transactional_ids_of(request: Any) -> tuple[str, ...]:
    """Return the ids, each once, in order."""
    return tuple(dict.fromkeys(_transactional_ids(request)))


def _transactional_ids(message: Any) -> Iterator[str]:
    for name, value in _fields(message):
        if name.endswith("transactional_id") and isinstance(value, str) and value:
            yield value
        elif name.endswith("transactional_ids") and isinstance(value, list | tuple):
            yield from value
        elif name == "key" and isinstance(value, str) and getattr(message, "key_type", 0) == 1:
            yield value  # FindCoordinator
        else:
            for part in _parts(value):
                yield from _transactional_ids(part)


def partitions_of(topics: Topics, request: Any) -> tuple[tuple[str, int], ...]:
    """Return the partitions, each once, in order. A topic that is given by id is returned by name."""
    return tuple(dict.fromkeys(_partitions(topics, request)))


def _partitions(topics: Topics, message: Any) -> Iterator[tuple[str, int]]:
    topic = _topic(topics, message)
    for _, value in _fields(message):
        if not isinstance(value, list | tuple):
            continue
        for part in value:
            if topic is not None and isinstance(part, int):
                yield topic, part
            elif isinstance(part, Message):
                index = next((getattr(part, name) for name in _INDEXES if name in part.FIELDS), None)
                if topic is not None and isinstance(index, int):
                    yield topic, index
                else:
                    yield from _partitions(topics, part)


def _topic(topics: Topics, message: Any) -> str | None:
    for name in ("name", "topic"):
        value = getattr(message, name, None)
        if isinstance(value, str) and value:
            return value
    topic_id = getattr(message, "topic_id", None)
    if isinstance(topic_id, UUID) and topic_id != ZERO_UUID:
        known = topics.by_id(topic_id)
        return None if known is None else known.name
    return None


def _fields(message: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(message, Message):
        for name in message.FIELDS:
            yield name, getattr(message, name)


def _parts(value: Any) -> Iterator[Message]:
    for part in value if isinstance(value, list | tuple) else (value,):
        if isinstance(part, Message):
            yield part
