"""Lines for index entries and producers in the format of Kafka's dump tool, and the same as objects for programs.

Owns: how an entry is printed. Does not own: where entries come from.
"""

from dataclasses import dataclass
from typing import Any

from oncelog.tools.log.dump.lines import optional_long


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One entry; its values in the order they are shown."""

    kind: str
    values: tuple[tuple[str, Any], ...]

    @property
    def text(self) -> str:
        return " ".join(f"{name}: {value}" for name, value in self.values)

    def fields(self) -> dict[str, Any] | None:
        return {"kind": self.kind} | {_snake_case(name): _plain(value) for name, value in self.values}


@dataclass(frozen=True, slots=True)
class Note:
    """A line about the file as a whole."""

    text: str
    state: str

    def fields(self) -> dict[str, Any] | None:
        return {"kind": self.state}


IndexLine = EntryLine | Note


def _snake_case(name: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in name)


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return None if value == optional_long(None) else int(value.removeprefix("OptionalLong[").removesuffix("]"))
