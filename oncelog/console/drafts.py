"""A record as a person has typed it, read strictly: pure.

Owns: what the fields of the form mean. Does not own: the form (`forms`), sending (`writing`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.console.query import BadQuery, Query

KINDS: Mapping[str, str] = {"text": "text", "json": "JSON", "null": "null, a tombstone"}
"""The kinds of a value, and their words in the form."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is not sent yet."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None


def draft_of(form: Query) -> Draft:
    """Raises BadQuery, which names the field."""
    topic = form.text("topic").strip()
    if not topic:
        raise BadQuery("the topic is empty")
    key = form.text("key", "")
    return Draft(topic, _bytes(key) if key else None, _value(form), _headers(form), form.number_or_none("partition"))


def _value(form: Query) -> bytes | None:
    kind, text = form.text("kind", "text"), form.text("value", "")
    if kind not in KINDS:
        raise BadQuery(f"kind={kind!r} is none of {', '.join(KINDS)}")
    if kind == "null":
        if text:
            raise BadQuery("the value is null, and has a text: empty it, or choose text or JSON")
        return None
    if kind == "json":
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise BadQuery(f"the value is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
        except (ValueError, RecursionError) as error:
            raise BadQuery(f"the value is not JSON that can be read: {error}") from None
    return _bytes(text)


def _headers(form: Query) -> tuple[tuple[str, bytes], ...]:
    headers = []
    for line in form.text("headers", "").splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise BadQuery(f"{line!r} is no header: each is a line such as name: value")
        headers.append((name.strip(), _bytes(value.strip())))
    return tuple(headers)


def _bytes(text: str) -> bytes:
    return text.encode()
