"""The query of a page's address, read strictly.

Owns: names, numbers and pages of a list in it. A page never guesses what was meant: a number that is none is BadQuery.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from oncelog.client.values.records import TopicPartition

_T = TypeVar("_T")
MOST = 2**63 - 1


class BadQuery(Exception):
    """Raised if the address of a page, or a form, lacks something or has an impossible value; the message says
    which."""


@dataclass(frozen=True, slots=True)
class Slice(Generic[_T]):
    """One page of a long list, counted from 1."""

    items: Sequence[_T]
    page: int
    page_count: int
    total: int


@dataclass(frozen=True, slots=True)
class Query:
    values: Mapping[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        """Raises BadQuery if it is not there and has no default."""
        value = self.values.get(name, default)
        if value is None:
            raise BadQuery(f"the address lacks {name}=")
        return value

    def number(self, name: str) -> int:
        """Raises BadQuery."""
        text = self.text(name)
        if not (text.isascii() and text.isdecimal()) or int(text) > MOST:
            raise BadQuery(f"{name}={text!r} is not a number")
        return int(text)

    def number_or_none(self, name: str) -> int | None:
        return self.number(name) if self.values.get(name) else None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.text("topic"), self.number("partition"))

    def page_of(self, items: Sequence[_T], size: int) -> Slice[_T]:
        """Return the page that `page` names; the last one if it is beyond."""
        count = max(1, -(-len(items) // size))
        page = min(max(1, self.number_or_none("page") or 1), count)
        return Slice(items[(page - 1) * size : page * size], page, count, len(items))
