"""A command line in the manner of Kafka's scripts (jopt-simple): `--name value`, `--name=value`, flags.

Owns: which options there are, and the errors about them. Does not own: their meaning.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from oncelog.tools.terminal import say

if TYPE_CHECKING:
    from oncelog.client.options.option_types import SecurityOptions


class Wrong(Exception):
    """Raised if the command line cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Script:
    """One script with the names of its options, apart from `--bootstrap-server` and `--command-config`, which all
    have."""

    run: str
    """The function of `Options` that returns the exit code, as `module:function`."""
    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    """The options with a value; one that is repeated has all its values."""
    required: tuple[str, ...] = ("bootstrap-server",)
    commands: tuple[str, ...] = ()
    """The words of which one comes first, before the options."""
    accepts_anything: bool = False
    """True if the function reads the words itself."""


@dataclass(frozen=True, slots=True)
class Options:
    script: str
    flags: frozenset[str]
    given: Mapping[str, list[str]]
    words: Sequence[str] = field(default_factory=tuple)

    def __contains__(self, name: str) -> bool:
        return name in self.flags or name in self.given

    def all(self, name: str) -> list[str]:
        return self.given.get(name, [])

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the last value of an option."""
        return self.all(name)[-1] if name in self.given else default

    def value(self, name: str) -> str:
        """Raises Wrong if it is missing, as Kafka does."""
        found = self.get(name)
        if found is None:
            raise Wrong(f'Missing required argument "[{name}]"')
        return found

    def number(self, name: str, default: int) -> int:
        found = self.get(name)
        if found is None:
            return default
        try:
            return int(found)
        except ValueError:
            raise Wrong(f"Cannot parse argument '{found}' of option {name}") from None

    def only(self, actions: Sequence[str]) -> str:
        """Return the one of these actions that is given. Raises Wrong."""
        found = [each for each in actions if each in self]
        if len(found) != 1:
            named = [f"--{each}" for each in actions]
            raise Wrong(f"Command must include exactly one action: {', '.join(named)}")
        return found[0]

    def pairs(self, name: str) -> dict[str, str]:
        """Parse NAME=VALUE of a repeated option, with commas between several in one."""
        found = {}
        for text in (each for value in self.all(name) for each in _at_commas(value)):
            key, equals, value = text.partition("=")
            if not equals:
                raise Wrong(f"requirement failed: Invalid entity config: {text!r} is not of the form key=val")
            found[key.strip()] = value.strip()
        return found


def _at_commas(text: str) -> list[str]:
    """Split `a=1,b=[2,3]` in two; brackets group, as in kafka-configs, and are dropped."""
    pieces, depth, piece = [], 0, ""
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            pieces.append(piece)
            piece = ""
        elif character not in "[]":
            piece += character
    return [each for each in (*pieces, piece) if each]


def parsed(name: str, script: Script, words: Sequence[str]) -> Options:
    """Raises Wrong for an option that is unknown, without its value, or beyond what is offered here."""
    if script.accepts_anything:
        return Options(name, frozenset(), {}, tuple(words))
    flags, given = set(), dict[str, list[str]]()
    left = list(words)
    command = _command(name, script, left)
    while left:
        word, equals, value = left.pop(0).partition("=")
        option = word.removeprefix("-").removeprefix("-")  # Kafka's scripts take `-topic` too
        if option == word:
            raise Wrong(f"{word} is not an option of {name}")
        if option in script.flags:
            flags.add(option)
        elif option not in script.values:
            raise Wrong(f"{name}: --{option} is not a recognized option here")
        elif not equals and not left:
            raise Wrong(f"Option {option} requires an argument")
        else:
            given.setdefault(option, []).append(value if equals else left.pop(0))
    options = Options(name, frozenset(flags), given, (command,) if command else ())
    for each in script.required:
        if each not in options:
            raise Wrong(f"--{each} must be specified")
    return options


def _command(name: str, script: Script, left: list[str]) -> str:
    """Take the command from the front of the words; empty if the script has none, or is asked about itself."""
    if not script.commands or {"--help", "--version"} & {*left}:
        return ""
    if not left or left[0] not in script.commands:
        raise Wrong(f"{name}: its first word is one of {', '.join(script.commands)}")
    return left.pop(0)


def client_security(options: Options) -> "SecurityOptions":
    """Return the security options in the file of --command-config; nothing else in it would make a difference. Raises
    Wrong."""
    from oncelog.tools.client_properties import ClientPropertiesError, read_client_properties

    found: SecurityOptions = {}
    for name in ("command-config", "producer.config", "consumer.config"):
        for file in options.all(name):
            try:
                found = read_client_properties(file)
            except ClientPropertiesError as error:
                raise Wrong(str(error)) from error
    return found


def out(*lines: str) -> None:
    """Print lines on standard output. What is not printable is escaped, but for the tabs that Kafka's scripts print."""
    from oncelog.protocol.printable import printable

    for line in lines:
        sys.stdout.write("\t".join(map(printable, line.split("\t"))) + "\n")


def fail(message: str) -> NoReturn:
    say(message, err=True)
    sys.exit(1)


Run = Callable[[Options], int]
Rows = Sequence[Sequence[Any]]
