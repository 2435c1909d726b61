"""`ssl.principal.mapping.rules`: which user a certificate's distinguished name stands for (KIP-371).

Owns: the syntax of the rules, and applying them. The first rule that matches the whole name decides; a name that none
matches has no principal, and its connection is closed. Patterns are matched by RE2, as all patterns are here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.broker.config.pattern import compiled_pattern
from oncelog.protocol.errors import KafkaError

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|\Z)")
_REFERENCE = re.compile(r"\$(\d)|\\(.)")
_CASE: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Any
    replacement: str
    """The replacement, with `$1` for the first group."""
    case: str


Rules = Sequence[_Rule | None]
"""Rules in order; None is DEFAULT, the name as it is."""


def parse_principal_rules(text: str) -> Rules:
    """Raises ValueError."""
    rules: list[_Rule | None] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(
                f"Invalid rule: `{text[position:]}`: write DEFAULT or RULE:PATTERN/REPLACEMENT/, with L or U"
            )
        position = match.end()
        if match[1]:
            rules.append(None)
            continue
        try:
            pattern = compiled_pattern(match[2])
        except KafkaError as error:
            raise ValueError(f"Invalid rule: `{match[0]}`: {error.message}") from error
        if any(int(each[1]) > pattern.groups for each in _REFERENCE.finditer(match[3]) if each[1]):
            raise ValueError(f"Invalid rule: `{match[0]}`: its pattern has {pattern.groups} groups")
        rules.append(_Rule(pattern, match[3], match[4]))
    return rules or [None]


def user_of(rules: Rules, distinguished_name: str) -> str | None:
    """Return the user name by the first rule that matches; None if none does."""
    for rule in rules:
        if rule is None:
            return distinguished_name
        found = rule.pattern.fullmatch(distinguished_name)
        if found is not None:
            user = _REFERENCE.sub(lambda each: _filled(each, found), rule.replacement)  # noqa: B023 - used at once
            return _CASE[rule.case](user)
    return None


def _filled(reference: "re.Match[str]", found: "re.Match[str]") -> str:
    return reference[2] if reference[1] is None else found[int(reference[1])] or ""
