"""Client-supplied patterns, matched by RE2: in time linear in the text, whatever the pattern (KIP-848, KIP-1152).

Never Python's `re`, which a pattern of a few bytes can keep busy for ever. Linear time may be long, too: RE2 takes it
for each byte of text and each state that the pattern can be in at once. So there is a bound to how large a pattern may
become.
"""

from collections.abc import Callable
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError

LONGEST_PATTERN = 10_000
_MOST_BYTES = 64 << 10
"""Of a compiled pattern. Measured, the costliest ones that we could think of: 0.3 ms for a text of 20 characters, and
4 ms with RE2's own bound of 8 MiB; a list of 900 names is far below."""


def re2_options() -> Any:
    """How every pattern of a client is compiled."""
    import re2  # loaded with the first pattern: a broker that never receives one starts without it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    return options


def matcher(pattern: str) -> Callable[[str], bool]:
    """Returns a function that says whether a whole text matches; an empty pattern matches everything.

    Raises INVALID_REGULAR_EXPRESSION.
    """
    if not pattern:
        return lambda _: True
    compiled = compiled_pattern(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def compiled_pattern(pattern: str) -> Any:
    """RE2's own object, as Python's `re.Pattern`. Raises INVALID_REGULAR_EXPRESSION."""
    import re2

    try:
        if len(pattern) > LONGEST_PATTERN:
            raise re2.error(f"more than {LONGEST_PATTERN} characters")
        return re2.compile(pattern, re2_options())
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern[:300]!r} is not a regular expression of RE2: {reason[:300]}",
        ) from error
