"""What Kafka is started with: `server.properties`, and `meta.properties` of its log directory.

Owns: which of our settings Kafka gets, and which it needs besides; Java's syntax of such files. Does not own: our
settings (`broker.config.settings`).
Invariant: what was set for this broker and has a meaning in Kafka is in the file, as it was set.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from oncelog.broker.config.dynamic_keys import is_security
from oncelog.broker.config.kafka_names import REMOVED
from oncelog.broker.config.listeners import ListenerConfig, SecurityProtocol
from oncelog.broker.config.settings import BrokerConfig
from oncelog.tools.graduate.records import is_kafkas

PROPERTIES = "server.properties"
FIRST_LINE = "# Written by `oncelog graduate`, for Apache Kafka 4.3."
CONTROLLER = "CONTROLLER"
_DECIDED_HERE = frozenset(
    (
        "advertised.listeners",
        "broker.id",
        "cluster.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "default.replication.factor",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
        "security.inter.broker.protocol",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    )
)
_OTHER_DEFAULTS = ("group.initial.rebalance.delay.ms",)
"""Their defaults here are not Kafka's, and clients would notice."""
_NODE = "User:ANONYMOUS"


class SettingsError(Exception):
    """Kafka could not be started with such settings; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Node:
    """Who Kafka is to be."""

    cluster_id: str
    node_id: int
    directory_id: UUID


@dataclass(frozen=True, slots=True)
class Controller:
    """The address of the controller, to which further brokers connect: where to bind, and as what it is known."""

    bind_host: str
    host: str
    port: int


def controller_beside(listeners: tuple[ListenerConfig, ...], chosen: tuple[str, int] | None) -> Controller:
    """On the host of the first listener, at the next free port, unless chosen. Raises SettingsError."""
    for listener in listeners:
        if listener.protocol is not SecurityProtocol.PLAINTEXT:
            # In Kafka its settings would be others (a login of the broker itself), and without them it would be open.
            raise SettingsError(
                f"the listener {listener.name} is {listener.protocol.value}, and Kafka would get it as PLAINTEXT: "
                "close it with --override listeners=PLAINTEXT://127.0.0.1:9092, and set "
                f"{listener.protocol.value} up in the server.properties that is written"
            )
        if not listener.port:
            raise SettingsError(
                f"the listener {listener.name} has port 0, any free one, and Kafka's clients need one that stays: "
                f"--override listeners={listener.name}://{listener.host}:9092"
            )
    first = listeners[0]
    if chosen is not None:
        return Controller(chosen[0], *chosen)
    port = first.port + 1
    while any(port == listener.port for listener in listeners):
        port += 1
    return Controller(first.host, first.advertised_host, port)


def passed_on(given: Mapping[str, str]) -> dict[str, str]:
    """Of the settings that were given to this broker, those that Kafka gets."""
    return {name: value for name, value in given.items() if _is_passed_on(name)}


def _is_passed_on(name: str) -> bool:
    is_ours = not is_kafkas(name) or name in _DECIDED_HERE
    # Without effect here, so every listener is PLAINTEXT; with effect there, clients could not connect.
    return not (is_ours or name in REMOVED or is_security(name))


def left_behind(given: Mapping[str, str]) -> list[str]:
    """The names of those that were given and that Kafka does not get in any form."""
    return sorted(name for name in given if name not in _DECIDED_HERE and not _is_passed_on(name))


def _check_authorizer(config: BrokerConfig) -> None:
    """Kafka's node registers with its own controller as a client would, here over PLAINTEXT. Raises SettingsError."""
    if config.get_str("authorizer.class.name") and _NODE not in config.get_str("super.users").split(";"):
        raise SettingsError(
            f"with authorizer.class.name Apache Kafka's own node has to be a super user. Its listeners are PLAINTEXT, "
            f"so it is {_NODE}, as is everybody else: graduate with --override authorizer.class.name= and switch it on "
            f"with listeners that know their clients, or with --override super.users={_NODE}, which allows everything"
        )


def server_properties(
    node: Node, config: BrokerConfig, given: Mapping[str, str], controller: Controller, kafka_dir: Path
) -> str:
    _check_authorizer(config)
    listeners = config.listeners
    protocols = ",".join(f"{name}:PLAINTEXT" for name in (*(listener.name for listener in listeners), CONTROLLER))
    decided = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": f"{node.node_id}@{_address(controller.host, controller.port)}",
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join(
            (
                *(f"{listener.name}://{_address(listener.host, listener.port)}" for listener in listeners),
                f"{CONTROLLER}://{_address(controller.bind_host, controller.port)}",
            )
        ),
        "advertised.listeners": ",".join(
            f"{listener.name}://{_address(listener.advertised_host, listener.advertised_port)}"
            for listener in listeners
        ),
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": listeners[0].name,
        "log.dirs": str(kafka_dir),
    }
    replication = dict.fromkeys(sorted(name for name in _DECIDED_HERE if name.endswith((".factor", ".min.isr"))), "1")
    kept = {name: config.get_str(name) for name in _OTHER_DEFAULTS} | passed_on(given)
    return "\n".join(
        (
            FIRST_LINE,
            *_lines(decided),
            "",
            "# One node; raise these when there are more, and reassign the topics.",
            *_lines(replication),
            "",
            "# As this broker was started.",
            *_lines(kept),
            "",
        )
    )


def meta_properties(node: Node) -> str:
    """As `kafka-storage.sh format` writes it."""
    values = {
        "version": "1",
        "cluster.id": node.cluster_id,
        "node.id": str(node.node_id),
        "directory.id": urlsafe_b64encode(node.directory_id.bytes).rstrip(b"=").decode(),
    }
    return "\n".join((*_lines(values), ""))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={_escaped(value)}" for name, value in values.items()]


def _escaped(value: str) -> str:
    """Java reads backslashes as escapes and other bytes as Latin-1."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    units = escaped.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)
