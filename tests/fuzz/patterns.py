"""Regular expressions that a client could send: small pieces, nested and repeated, that become large or slow.

Owns: how a pattern is put together. Does not own: what it may cost (`tests.support.requests.costs`). No pattern is
listed: which one costs much is for the search to find.
"""

from random import Random

_ATOMS = ("a", "x", "t", "1", ".", "[a-z]", "[a-z0-9]", "[^b]", r"\w", r"\pL", "(?:a|t|x)", "(?i:a)")
_REPEATS = ("?", "*", "+", "??", "*?")
_COUNTS = (2, 3, 10, 30, 100, 300, 1_000)
_DEEPEST, _WIDEST, _LONGEST = 3, 4, 2_000
_MOST_REPEATED = 1_000
"""RE2 refuses a repetition of more, of nested ones their product."""


def pattern(source: Random) -> str:
    """One of any size; RE2 accepts nearly all of them."""
    return _sequence(source, _DEEPEST, _MOST_REPEATED)[:_LONGEST]


def _sequence(source: Random, depth: int, most: int) -> str:
    pieces = [_piece(source, depth, most) for _ in range(source.randint(1, _WIDEST))]
    return ("|" if source.random() < 0.1 else "").join(pieces)


def _piece(source: Random, depth: int, most: int) -> str:
    """An atom or a group, perhaps repeated."""
    how = source.random()
    count = source.choice([each for each in _COUNTS if each <= most] or [1]) if how < 0.5 else 1
    inner = f"({_sequence(source, depth - 1, most // count)})" if depth and source.random() < 0.5 else ""
    piece = inner or source.choice(_ATOMS)
    if how < 0.5:
        return piece + source.choice((f"{{{count}}}", f"{{0,{count}}}", f"{{1,{count}}}"))
    return piece + source.choice(_REPEATS) if how < 0.8 else piece


def setting(source: Random) -> tuple[str, str]:
    """A setting that takes a pattern or a list, and such a value."""
    rules = ",".join(
        f"RULE:{pattern(source)}/$1/{source.choice(('', 'L', 'U'))}" for _ in range(source.choice((1, 2, 30)))
    )
    addresses = ",".join(
        f"10.0.{number // 250}.{number % 250}:{number}" for number in range(source.choice((1, 3, 2_000)))
    )
    return source.choice(
        (
            ("ssl.principal.mapping.rules", rules),
            ("listener.name.plaintext.ssl.principal.mapping.rules", rules),
            ("listener.name.plaintext.sasl.kerberos.principal.to.local.rules", rules),
            ("max.connections.per.ip.overrides", addresses),
        )
    )
