"""Regular expressions of subscriptions: RE2, which takes linear time whatever the expression (KIP-848).

Owns: which expressions are valid, and which whole names they match. Python's own `re` is never used: a client could
block the broker with it. The library is imported at the first expression.
"""

from collections.abc import Iterable
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError


def compile_regex(regex: str) -> Any:
    """Raises INVALID_REGULAR_EXPRESSION."""
    import re2

    from oncelog.broker.pattern import LONGEST_PATTERN, re2_options  # loaded with the first expression, as RE2 is

    try:
        if len(regex) > LONGEST_PATTERN:
            raise re2.error(f"more than {LONGEST_PATTERN} characters")
        return re2.compile(regex, re2_options())
    except (re2.error, UnicodeEncodeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:300]}` is not a valid regular expression: {_reason(error)}.",
        ) from error


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return text[:300]


def matching_names(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match from end to end. Raises INVALID_REGULAR_EXPRESSION."""
    pattern = compile_regex(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))
