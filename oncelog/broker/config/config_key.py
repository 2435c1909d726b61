"""A key of the settings: its name, type and bounds, and whether a text is a value of it.

Owns: how Kafka reads values and words its refusals. Does not own: which keys there are (`broker.config.broker_keys`,
`broker.config.topic_keys`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(Enum):
    """Kafka's own names (ConfigDef.Type); the value is DescribeConfigs' number for it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


# Python's int() and float() accept more than Java's: 1_000, nan, digits of other scripts.
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}\Z")
_DOUBLE_TEXT = re.compile(r"[+-]?(Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)\Z")
_INTEGER_MAX = {ConfigType.INT: INT32_MAX, ConfigType.SHORT: INT16_MAX, ConfigType.LONG: INT64_MAX}


class BadList(ValueError):
    """A list as a whole is refused; the message names the setting."""


class NotAChoice(ValueError):
    """`item`, perhaps one of a list, is not among the allowed values."""

    def __init__(self, item: str, choices: tuple[str, ...], *, any_case: bool = False) -> None:
        super().__init__(f"String must be one of{' (case insensitive)' if any_case else ''}: {', '.join(choices)}")
        self.item = item


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: str | None
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    exception: int | None = None
    """One more allowed value, outside the bounds."""
    parse: Callable[[str], object] | None = None
    """Parses a value with its own syntax; raises ValueError."""
    empty_items: bool = False
    """Whether a list may have empty items."""
    any_case: bool = False
    """Whether the choices, which are in upper case, may be written in any."""

    def check(self, text: str) -> str:
        """The text as it is stored (trimmed, booleans in lower case). Raises ValueError with Kafka's message."""
        text = text.strip()
        match self.type:
            case ConfigType.BOOLEAN:
                text = text.lower()
                if text not in ("true", "false"):
                    raise ValueError("Expected value to be either true or false")
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                limit = _INTEGER_MAX[self.type]
                if not _INTEGER.match(text) or not -limit - 1 <= int(text) <= limit:
                    raise ValueError(f"Not a number of type {self.type.name}")
                self._check_bounds(int(text))
            case ConfigType.DOUBLE:
                if not _DOUBLE_TEXT.match(text):
                    raise ValueError("Not a number of type DOUBLE")
                self._check_bounds(float(text))
            case ConfigType.LIST:
                self._check_list([item.strip() for item in text.split(",")] if text else [])
            case ConfigType.STRING:
                self._check_choices([text])
        if self.parse is not None:
            self.parse(text)
        return text

    def _check_bounds(self, number: float) -> None:
        if self.exception is not None:
            if number != self.exception and not (self.minimum or 0) <= number <= (self.maximum or 0):
                raise ValueError(
                    f"Value must be between {self.minimum} and {self.maximum} or equal to {self.exception}"
                )
            return
        if self.minimum is not None and not number >= self.minimum:
            raise ValueError(f"Value must be at least {self.minimum}")
        if self.maximum is not None and not number <= self.maximum:
            raise ValueError(f"Value must be no more than {self.maximum}")

    def _check_list(self, items: list[str]) -> None:
        if "" in items and not self.empty_items:
            raise BadList(f"Configuration '{self.name}' values must not be empty.")
        self._check_choices(items)

    def _check_choices(self, items: list[str]) -> None:
        for item in items if self.choices else ():
            if (item.upper() if self.any_case else item) not in self.choices:
                raise NotAChoice(item, self.choices, any_case=self.any_case)
