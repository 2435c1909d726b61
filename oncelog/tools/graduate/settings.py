"""What Kafka is started with: `server.properties`.

Owns: which of our settings Kafka gets, and which it needs besides; its addresses. Does not own: our settings
(`broker.config.settings`), logins (`security`), Java's syntax of such files (`kafka_directory.properties`).
Invariant: what was set for this broker and has a meaning in Kafka is in the file, as it was set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oncelog.broker.config.dynamic_keys import is_security
from oncelog.broker.config.kafka_names import REMOVED
from oncelog.broker.config.listeners import ListenerConfig
from oncelog.broker.config.settings import BrokerConfig
from oncelog.tools.graduate.security import client_settings, needs_own_listeners, node_settings
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.bootstrap import is_kafkas
from oncelog.tools.kafka_directory.properties import Node, lines

PROPERTIES = "server.properties"
FIRST_LINE = "# Written by `oncelog graduate`, for Apache Kafka 4.3."
CONTROLLER = "CONTROLLER"
_OWN_NAMES = ("NODE", *(f"NODE_{number}" for number in range(2, 100)))
"""The possible names of the listener for brokers; the first that no other listener has is taken."""
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
"""The settings whose defaults here are not Kafka's, so that clients would notice."""
_HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Controller:
    """The address of the controller, to which further brokers connect: where to bind, and what to advertise; and the
    port there on which brokers connect to each other, 0 if they do so where clients do."""

    bind_host: str
    host: str
    port: int
    broker_port: int = 0


def controller_beside(config: BrokerConfig, chosen: tuple[str, int] | None) -> Controller:
    """Return the controller's address at the next free port after the first listener, unless chosen: on its host, or,
    where the node has a login of its own, on this machine alone. Raises NotPossible."""
    listeners = config.listeners
    for listener in listeners:
        if not listener.port:
            raise NotPossible(
                f"the listener {listener.name} has port 0, any free one, and Kafka's clients need one that stays: "
                f"--override listeners={listener.name}://{listener.host}:9092"
            )
    first, has_own = listeners[0], needs_own_listeners(config)
    if chosen is not None:
        bind_host, host, port = chosen[0], *chosen
    else:
        bind_host, host = (_HERE, _HERE) if has_own else (first.host, first.advertised_host)
        port = _free_port(first.port, listeners)
    return Controller(bind_host, host, port, _free_port(port, listeners) if has_own else 0)


def _free_port(port: int, listeners: tuple[ListenerConfig, ...]) -> int:
    """Return the next free port."""
    port += 1
    while any(port == listener.port for listener in listeners):
        port += 1
    return port


def passed_on(config: BrokerConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return those of the given settings that Kafka gets."""
    return {name: value for name, value in given.items() if _is_passed_on(config, name)}


def _is_passed_on(config: BrokerConfig, name: str) -> bool:
    if not is_kafkas(name) or name in _DECIDED_HERE or name in REMOVED:
        return False
    # Where no listener has TLS or SASL they are without effect here, and with one there.
    return not is_security(name) or any(listener.protocol.value != "PLAINTEXT" for listener in config.listeners)


def left_behind(config: BrokerConfig, given: Mapping[str, str]) -> list[str]:
    """Return the names of given settings that Kafka does not get in any form."""
    return sorted(name for name in given if name not in _DECIDED_HERE and not _is_passed_on(config, name))


def server_properties(
    node: Node, config: BrokerConfig, given: Mapping[str, str], controller: Controller, kafka_dir: Path
) -> str:
    """Raises NotPossible."""
    listeners = config.listeners
    names = [listener.name for listener in listeners]
    bound = [f"{listener.name}://{_address(listener.host, listener.port)}" for listener in listeners]
    known = [f"{each.name}://{_address(each.advertised_host, each.advertised_port)}" for each in listeners]
    protocols = [f"{listener.name}:{listener.protocol.value}" for listener in listeners]
    of_brokers, protocol, principal = names[0], "PLAINTEXT", None
    login: dict[str, str] = {}
    if controller.broker_port:
        of_brokers, protocol = next(each for each in _OWN_NAMES if each not in names), "SASL_PLAINTEXT"
        principal, login = node_settings((of_brokers, CONTROLLER))
        bound.append(f"{of_brokers}://{_address(controller.bind_host, controller.broker_port)}")
        known.append(f"{of_brokers}://{_address(controller.host, controller.broker_port)}")
        protocols.append(f"{of_brokers}:{protocol}")
    decided = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": f"{node.node_id}@{_address(controller.host, controller.port)}",
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join((*bound, f"{CONTROLLER}://{_address(controller.bind_host, controller.port)}")),
        "advertised.listeners": ",".join(known),
        "listener.security.protocol.map": ",".join((*protocols, f"{CONTROLLER}:{protocol}")),
        "inter.broker.listener.name": of_brokers,
        "log.dirs": str(kafka_dir),
    }
    replication = dict.fromkeys(sorted(name for name in _DECIDED_HERE if name.endswith((".factor", ".min.isr"))), "1")
    kept = {name: config.get_str(name) for name in _OTHER_DEFAULTS} | passed_on(config, given)
    kept |= client_settings(config, passed_on(config, given), principal)
    return "\n".join(
        (
            FIRST_LINE,
            *lines(decided),
            "",
            "# One node; raise these when there are more, and reassign the topics.",
            *lines(replication),
            "",
            "# As this broker was started.",
            *lines({name: value for name, value in kept.items() if name not in login}),
            *(("", "# How the node logs in to itself; brokers that join need the same.") if login else ()),
            *lines(login),
            "",
        )
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
