"""Client-supplied patterns, matched by RE2: in time linear in the text, whatever the pattern (KIP-848, KIP-1152).

Never Python's `re`, which a pattern of a few bytes can keep busy for ever. Linear time may be long, too: RE2 takes it
for each byte of text and each state that the pattern can be in at once. So there is a bound to how large a pattern may
become, and more than a few steps run beside the event loop (`broker.handlers.shared.matching`).
"""

from collections.abc import Sequence
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError

LONGEST_PATTERN = 10_000
_MOST_BYTES = 64 << 10
"""The memory of a compiled pattern. Measured, the costliest ones that we could think of: 0.3 ms for a text of 20
characters, and 4 ms with RE2's own bound of 8 MiB; a list of 900 names is far below."""


_MOST_INSTRUCTIONS = 1_500
"""The size of a compiled pattern; each instruction may be looked at for each byte of a text. Measured, the costliest:
0.2 ms for a text of 20 characters, 4 ms for one of 249; `[a-z]{1,249}` has 1,255 of them, a list of 900 names 200."""
AT_ONCE_STEPS = 50_000
"""Instructions times bytes that may run on the loop. Measured: 0.5 to 2 ms at worst."""


def compiled(pattern: str) -> Any:
    """Compile a pattern, with the same limits for every pattern of a client or of a setting. Raises re2.error."""
    import re2  # loaded with the first pattern: a broker that never receives one starts without it

    if len(pattern) > LONGEST_PATTERN:
        raise re2.error(f"more than {LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    made = re2.compile(pattern, options)
    size = max(made.programsize, made.reverseprogramsize)
    if size > _MOST_INSTRUCTIONS:
        raise re2.error(f"it is too large: {size} instructions, at most {_MOST_INSTRUCTIONS} are allowed")
    return made


def step_count(pattern: Any, texts: Sequence[str]) -> int:
    """Return an upper bound of the steps to match a compiled pattern against the texts."""
    count: int = pattern.programsize * (len(texts) + sum(map(len, texts)))
    return count


def matching(pattern: Any, texts: Sequence[str]) -> set[str]:
    """Return the texts that a compiled pattern matches from end to end."""
    return {text for text in texts if pattern.fullmatch(text)}


def compiled_pattern(pattern: str) -> Any:
    """Compile a client's pattern into RE2's own object, which is used as Python's `re.Pattern`. Raises
    INVALID_REGULAR_EXPRESSION."""
    import re2

    try:
        return compiled(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern[:300]!r} is not a regular expression of RE2: {reason[:300]}",
        ) from error
