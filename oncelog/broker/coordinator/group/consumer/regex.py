"""Regular expressions of subscriptions: RE2, which takes linear time whatever the expression (KIP-848).

Owns: which expressions are valid, and which whole names they match. Python's own `re` is never used: a client could
block the broker with it. The library is imported at the first expression.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.protocol.errors import ErrorCode, KafkaError


def compile_regex(regex: str) -> Any:
    """Raises INVALID_REGULAR_EXPRESSION."""
    import re2

    from oncelog.broker.config.pattern import compiled  # loaded with the first expression, as RE2 is

    try:
        return compiled(regex)
    except (re2.error, UnicodeEncodeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:300]}` is not a valid regular expression: {_reason(error)}.",
        ) from error


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return text[:300]


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches that were found beside the loop before a decision is made."""

    names: Collection[str]
    """The topics that were looked at."""
    by_regex: Mapping[str, Collection[str]]

    def with_more(self, names: Collection[str], by_regex: Mapping[str, Collection[str]]) -> "Matches":
        """Return both sets of matches, limited to the names that were looked at for both."""
        if not self.by_regex or not self.by_regex.keys().isdisjoint(by_regex):
            return Matches(names, by_regex)
        return Matches(frozenset(names).intersection(self.names), {**self.by_regex, **by_regex})


NOTHING_MATCHED = Matches(frozenset(), {})


class LongMatch(KafkaError):
    """Raised if a decision needs these expressions, and matching them takes longer than a turn."""

    def __init__(self, patterns: Mapping[str, Any], names: Sequence[str]) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the expressions are being matched")
        self.patterns = patterns
        """The compiled patterns, by expression."""
        self.names = names


def matching_names(regexes: Collection[str], names: Sequence[str], known: Matches) -> Mapping[str, frozenset[str]]:
    """Return the names that each expression matches from end to end. Raises INVALID_REGULAR_EXPRESSION, and LongMatch
    for more work than fits into a turn that is not `known` yet."""
    from oncelog.broker.config.pattern import AT_ONCE_STEPS, matching, step_count

    new_names = [name for name in names if name not in known.names]
    patterns = {regex: compile_regex(regex) for regex in regexes}
    left = {regex: new_names if regex in known.by_regex else names for regex in regexes}
    if sum(step_count(pattern, left[regex]) for regex, pattern in patterns.items()) > AT_ONCE_STEPS:
        unknown = {regex: pattern for regex, pattern in patterns.items() if regex not in known.by_regex}
        raise LongMatch(unknown or patterns, tuple(names))
    matched = {}
    for regex, pattern in patterns.items():
        earlier = frozenset(known.by_regex.get(regex, ())).intersection(names)
        matched[regex] = earlier | matching(pattern, left[regex])
    return matched
