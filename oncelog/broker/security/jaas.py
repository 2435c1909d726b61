"""`sasl.jaas.config`: the line that people copy out of Kafka's documentation, taken apart.

Owns: the syntax, as Java's StreamTokenizer reads it. Does not own: what the options mean. Invariant: no message has the
text of the line in it, which has passwords.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*(?:(?P<word>[\w.$-]+)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|(?P<sign>[=;])|(?P<end>\Z))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    """The class, which is not loaded: it names the mechanism that the options are for."""
    options: Mapping[str, str] = field(repr=False)

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords by user, from the options `user_NAME`."""
        return {name[len(_USER) :]: value for name, value in self.options.items() if name.startswith(_USER)}


def parse_jaas(text: str) -> LoginModule:
    """Parse one login module. Raises ValueError."""
    tokens = _tokens(text)
    signs = [sign for sign, _ in tokens]
    words = [word for _, word in tokens]
    if len(tokens) < 3 or signs[0] or words[1].lower() not in _FLAGS:
        raise ValueError('it must begin with the name of a login module and "required"')
    if signs[-1] != ";":
        raise ValueError("it must end with a semicolon")
    if ";" in signs[:-1]:
        raise ValueError("it has more than one login module")
    rest = range(2, len(tokens) - 1, 3)
    if (len(tokens) - 3) % 3 or any(signs[at] or signs[at + 1] != "=" or signs[at + 2] for at in rest):
        raise ValueError('each of its options must be of the form name="value"')
    return LoginModule(words[0], {words[at]: words[at + 2] for at in rest})


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return the tokens of the text, each as (sign, "") or ("", word)."""
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"it cannot be read from its character {position + 1} on: is a quote missing?")
        position = match.end()
        if match["sign"]:
            tokens.append((match["sign"], ""))
        elif match["word"] is not None:
            tokens.append(("", match["word"]))
        elif match["end"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            tokens.append(("", _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), quoted)))
    return tokens
