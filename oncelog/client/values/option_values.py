"""The values of options: whether one is of the type that its setting declares, and what to write if it is not.

Owns: the check of one value, in words for the program's author, and that a client's documentation lists its options.
Does not own: names (`errors.check_options`), combinations (`options.settings`), what is said of them (`option_help`).
Invariant: what a type checker lets through is accepted, but for numbers out of range.
"""

from collections import abc
from dataclasses import fields
from numbers import Integral, Real
from ssl import SSLContext
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, is_typeddict

from oncelog.client.values.errors import ConfigError

ClassT = TypeVar("ClassT", bound=type)
_MOST: Final = 2**31 - 1
"""The highest number: counts, bytes and milliseconds are 32 bits in the protocol."""
_SHOWN: Final = 80
_MAX_PORT: Final = 65_535


class Documentation:
    """A `__doc__` that is made when it is looked at: the text of the class, and below it its options."""

    def __init__(self, text: str | None, settings: type) -> None:
        self._text = text
        self._settings = settings

    def __get__(self, _: object, owner: type | None = None) -> str:
        from oncelog.client.values.option_help import text_of

        return text_of(self._text, self._settings)


def lists_options(settings: type) -> abc.Callable[[ClassT], ClassT]:
    """Have `help` of the class list these settings, which are its keyword arguments."""

    def decorate(client: ClassT) -> ClassT:
        setattr(client, "__doc__", Documentation(client.__doc__, settings))  # noqa: B010  # no str
        return client

    return decorate


def parse_addresses(bootstrap_servers: str | abc.Sequence[str]) -> list[tuple[str, int]]:
    """Parse `host:port,host:port` or a sequence of these; raises ConfigError."""
    is_list = isinstance(bootstrap_servers, abc.Sequence) and all(isinstance(each, str) for each in bootstrap_servers)
    if not is_list or isinstance(bootstrap_servers, bytes):
        raise ConfigError(f"bootstrap_servers={bootstrap_servers!r}: must be a str or a list of str")
    texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    addresses = []
    for text in texts:
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
            raise ConfigError(f"bootstrap_servers: {text!r} is not of the form host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ConfigError("bootstrap_servers is empty")
    return addresses


def check_values(settings: Any, at_least_1: abc.Set[str] = frozenset()) -> None:
    """Raise ConfigError for the first field of this dataclass whose value is not of its type. Numbers are at least 0,
    or 1 for the names in `at_least_1`."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value is field.default:
            continue
        least = int(field.name in at_least_1)
        union = get_origin(field.type) in (Union, UnionType)
        kinds = [_Kind(each, least) for each in (get_args(field.type) if union else (field.type,))]
        if not any(each.has(value) for each in kinds):
            is_quoted = isinstance(value, str) and any(each.origin in _NUMBERS for each in kinds)
            shown = _shown(value) if field.repr else "[hidden]"
            raise ConfigError(
                f"{field.name}={shown}: must be {' or '.join(each.words for each in kinds)}",
                hint=f"without quotes: {field.name}={_shown(value)[1:-1]}" if is_quoted else "",
            )


class _Kind:
    """One alternative of a type, with the values that belong to it, and its words."""

    def __init__(self, kind: Any, least: int) -> None:
        self.origin = get_origin(kind) or kind
        self._choices = get_args(kind) if self.origin is Literal else ()
        self._least = least

    def has(self, value: Any) -> bool:
        if self._choices:
            return any(type(value) is type(each) and value == each for each in self._choices)
        if self.origin in _NUMBERS:
            # Of numpy's types, too, but no bool. Nothing compares with NaN.
            is_one = isinstance(value, Integral if self.origin is int else Real) and not isinstance(value, bool)
            return is_one and self._least <= value <= _MOST
        if self.origin is abc.Callable:
            return callable(value)
        if self.origin is abc.Sequence:
            is_list = isinstance(value, abc.Sequence) and not isinstance(value, str | bytes)
            return is_list and all(isinstance(each, str) for each in value)
        if is_typeddict(self.origin) or self.origin is abc.Mapping:
            return isinstance(value, abc.Mapping)
        return isinstance(value, self.origin) if self.origin in _WORDS else hasattr(value, self._method)

    @property
    def words(self) -> str:
        if self._choices:
            return f"one of {', '.join(map(repr, self._choices))}"
        if self.origin in _NUMBERS:
            return f"{_NUMBERS[self.origin]} from {self._least} to {_MOST}"
        if is_typeddict(self.origin):
            return "a dict of options"
        return _WORDS.get(self.origin) or f"an object with {self._method}()"

    @property
    def _method(self) -> str:
        """The name of the only method of a protocol."""
        names: list[str] = [name for name in vars(self.origin) if not name.startswith("_")]
        return names[0]


_NUMBERS: dict[Any, str] = {int: "an int", float: "a number"}
_WORDS: dict[Any, str] = {
    NoneType: "None",
    bool: "True or False",
    str: "a str",
    abc.Callable: "a function",
    abc.Sequence: "a list of str",
    abc.Mapping: "a dict",
    SSLContext: "an ssl.SSLContext",
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
