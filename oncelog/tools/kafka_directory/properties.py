"""`meta.properties`, by which Kafka knows a log directory: whose it is.

Owns: Java's syntax of such files. Does not own: what Kafka is started with (`oncelog.tools.graduate.settings`).
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from oncelog.broker.storage.local.data_directory import KAFKAS_MARK
from oncelog.tools.file_copies import read
from oncelog.tools.kafka_directory import NotPossible

_LINE = re.compile(r"([^#!=:\s]+)\s*[=:]\s*(.*?)\s*\Z")
_OF_ZOOKEEPER = "0"
_LOWEST_PLAIN_ID = 100
_DASH = 62
"""The number of a dash in URL-safe base64."""


@dataclass(frozen=True, slots=True)
class Node:
    """The identity of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID | None
    """The directory's own id; None in one that was formatted by a Kafka before 3.7 (KIP-858)."""


def read_node(path: Path) -> Node:
    """Return whose directory this is. Raises NotPossible."""
    if not path.is_dir():
        raise NotPossible(f"{path} is no directory")
    try:
        text = read(path / KAFKAS_MARK).decode(errors="replace")
    except FileNotFoundError as error:
        hint = "the directory itself is meant, the log.dirs of its server.properties"
        raise NotPossible(f"{path} is not a log directory of Apache Kafka (it has no {KAFKAS_MARK}): {hint}") from error
    except OSError as error:
        raise NotPossible(f"cannot read {path / KAFKAS_MARK}: {error.strerror}") from error
    found = (_LINE.match(line.strip()) for line in text.splitlines() if not line.lstrip().startswith(("#", "!")))
    properties = {line[1]: line[2] for line in found if line is not None}
    if properties.get("version") == _OF_ZOOKEEPER or "broker.id" in properties:
        raise NotPossible(
            f"{path} is of a Kafka with ZooKeeper, where its topics are: migrate it to KRaft with Kafka 3.9 first "
            "(KIP-866)"
        )
    try:
        directory_id = properties.get("directory.id")
        decoded = None if directory_id is None else UUID(bytes=urlsafe_b64decode(f"{directory_id}=="))
        return Node(properties["cluster.id"], int(properties["node.id"]), decoded)
    except (KeyError, ValueError) as error:
        raise NotPossible(f"{path / KAFKAS_MARK} is damaged ({error}): restore it from a copy") from error


def meta_properties(node: Node) -> str:
    """Return meta.properties as `kafka-storage.sh format` writes it."""
    values = {"version": "1", "cluster.id": node.cluster_id, "node.id": str(node.node_id)}
    if node.directory_id is not None:
        values["directory.id"] = urlsafe_b64encode(node.directory_id.bytes).rstrip(b"=").decode()
    return "\n".join((*lines(values), ""))


def new_directory_id() -> UUID:
    """Return a random directory id. Kafka gives the smallest ids meanings of their own, and writes none that begins
    with a dash."""
    while True:
        found = uuid4()
        if found.int >= _LOWEST_PLAIN_ID and found.bytes[0] >> 2 != _DASH:
            return found


def lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={_escaped(value)}" for name, value in values.items()]


def _escaped(value: str) -> str:
    """Escape a value: Java reads backslashes as escapes and other bytes as Latin-1."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    units = escaped.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)
