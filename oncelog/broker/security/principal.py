"""Who the client of a connection is.

Owns: what a principal is and how it is written. Does not own: how a client proves it (authentication), what it may do
(authorization).

A connection's principal is `Peer.principal`: `ANONYMOUS` until its listener has authenticated it, for ever on listeners
that do not authenticate. Everything inside that depends on the client's identity reads it there.
"""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A principal as Kafka's KafkaPrincipal: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a client without a login, as KafkaPrincipal.ANONYMOUS."""


def parse_principal(text: str) -> Principal:
    """Parse KIND:NAME; names may contain colons. Raises ValueError."""
    kind, separator, name = text.partition(":")
    if not (separator and kind and name):
        raise ValueError(f"{text!r} is not a principal of the form User:NAME")
    return Principal(kind, name)
