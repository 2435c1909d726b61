"""What is reported: one kind of mistake of one client about one subject, counted.

Owns: the values, and their JSON, which `oncelog.witness` reads again. Does not own: when something is a mistake.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Protocol, Self

from oncelog.broker.turns.ports import WallMs
from oncelog.broker.witness.kinds import Kind, Severity

NAME_CHARACTERS: Final = 256
"""How many characters are kept of a name: the protocol allows 32,767 bytes, a topic name has at most 249."""


def shortened(name: str) -> str:
    """Return the name as it is kept."""
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"


class Connection(Protocol):
    """A client's connection, as `broker.request.Peer` has it."""

    @property
    def host(self) -> str: ...

    @property
    def address(self) -> str:
        """The address as HOST:PORT."""

    def is_connected(self) -> bool: ...


_DEFAULT_ID = re.compile(
    "(?P<java>(?:consumer|producer)-.+)"
    "|(?P<aiokafka>aiokafka-(?:producer-)?[0-9].*)"
    "|(?P<kafka_python>kafka-python-(?:consumer-|producer-)?[0-9].*)"
    "|(?P<oncelog>oncelog-(?:consumer|producer|share-consumer))"
    "|(?P<librdkafka>rdkafka)|(?P<franz_go>kgo)|(?P<sarama>sarama)|(?P<kafkajs>kafkajs)"
    "|(?P<none>)"
)
"""The client ids that libraries choose if the program does not: consumers and producers have different ones, or all
have the same."""


class Client(NamedTuple):
    """All connections from one host with the same names, as the client gives them."""

    client_id: str
    host: str
    software_name: str
    """The name of the client software; empty before ApiVersions 3, which many Python clients do not send."""
    software_version: str

    @property
    def library(self) -> str | None:
        """The library whose default its client id is; None if the program chose the id."""
        default = _DEFAULT_ID.fullmatch(self.client_id)
        return None if default is None else default.lastgroup

    @property
    def program(self) -> tuple[str, str]:
        """A value shared by the consumer and the producer of one program: host and client id, or the library of a
        default."""
        return self.host, self.library or self.client_id


class Sender(NamedTuple):
    """The sender of a request."""

    client: Client
    connection: Connection


class Key(NamedTuple):
    """The key of mistakes that are counted together."""

    kind: Kind
    program: tuple[str, str]
    about: str
    """The topic, group or transactional id; empty if all of them count together."""


class Subject(NamedTuple):
    """The subject of a finding: a topic, a group, or a transactional id."""

    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of mistake of one client, about one topic, group or transactional id."""

    kind: str
    """The name of one of `kinds.KINDS`."""
    severity: Severity
    client_id: str
    address: str
    """HOST:PORT of the connection on which it was seen last."""
    software_name: str
    software_version: str
    topic: str | None
    group: str | None
    transactional_id: str | None
    count: int
    """How many requests had the mistake."""
    first_ms: int
    """When it was first seen, in milliseconds since 1970 by the broker's clock, as `last_ms`."""
    last_ms: int
    seen: str
    """A sentence about the last time."""
    change: str
    """The advice, as a sentence."""
    docs: str
    """The page that explains it, with its anchor."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings since the start of the broker."""

    findings: tuple[Finding, ...]
    """The findings: wrong ones first, then by client."""
    forgotten: Mapping[str, int]
    """How many entries of each table were dropped for newer ones: above 0, findings may be missing, and counts too
    low."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as `GET /witness` does."""
        return {"findings": [asdict(each) for each in self.findings], "forgotten": dict(self.forgotten)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the report that `as_json` made. Raises KeyError or TypeError for anything else."""
        return cls(tuple(Finding(**each) for each in values["findings"]), values["forgotten"])


class Sighting:
    """The count of one mistake, updated with each further time."""

    __slots__ = ("_address", "_client", "_count", "_first_ms", "_last_ms", "_seen", "_subject", "key")

    def __init__(self, key: Key) -> None:
        self.key: Final = key
        self._count = 0

    def add(self, sender: Sender, subject: Subject, seen: str, wall_ms: WallMs) -> None:
        if not self._count:
            self._first_ms = wall_ms
        self._count += 1
        self._last_ms = wall_ms
        self._client = sender.client
        self._address = sender.connection.address
        self._subject = subject
        self._seen = seen

    @property
    def finding(self) -> Finding:
        kind, client, subject = self.key.kind, self._client, self._subject
        return Finding(
            kind=kind.name,
            severity=kind.severity,
            client_id=client.client_id,
            address=self._address,
            software_name=client.software_name,
            software_version=client.software_version,
            topic=subject.topic,
            group=subject.group,
            transactional_id=subject.transactional_id,
            count=self._count,
            first_ms=self._first_ms,
            last_ms=self._last_ms,
            seen=self._seen,
            change=kind.change,
            docs=kind.page,
        )
