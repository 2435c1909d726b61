"""`kafka-broker-api-versions`, `kafka-cluster` and `kafka-get-offsets`, and what other images bring for health checks:
`cub`, `nc -z`.

Owns: Kafka's words, and those parts of `cub` and `nc` that wait for a broker.
"""

import argparse
import re
import socket
import time
from typing import TYPE_CHECKING

from oncelog.health import NotHealthy, api_versions
from oncelog.protocol.api_keys import ApiKey
from oncelog.tools.client_properties import ClientPropertiesError, read_client_properties, tls_context
from oncelog.tools.kafka_scripts.arguments import Options, Wrong, client_security, out
from oncelog.tools.kafka_scripts.asking import ask

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.options.option_types import SecurityOptions

_TIMEOUT_S = 5.0
_PAUSE_S = 0.5
_ALSO_KNOWN = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""The APIs that Java's client names, since it knows them, and the broker does not list."""


def broker_api_versions(options: Options) -> int:
    return ask(options, lambda admin: _broker_api_versions(admin, client_security(options)))


async def _broker_api_versions(admin: "Admin", security: "SecurityOptions") -> int:
    context = tls_context(security)
    nodes = (await admin.describe_cluster()).nodes
    for node_id, (host, port) in sorted(nodes.items()):
        out(f"{host}:{port} (id: {node_id} rack: null isFenced: false) -> (")
        listed = {key: (low, high) for key, low, high in api_versions(host, port, _TIMEOUT_S, context)}
        lines = [_api(key, listed.get(key)) for key in sorted({*listed, *_ALSO_KNOWN})]
        out(*(f"\t{line}," for line in lines[:-1]), f"\t{lines[-1]}", ")")
    return 0


def _api(key: int, versions: tuple[int, int] | None) -> str:
    known = key in ApiKey.__members__.values()
    name = "".join(word.title() for word in ApiKey(key).name.split("_")) if known else "UNKNOWN"
    if versions is None:
        return f"{name}({key}): UNSUPPORTED"
    low, high = versions
    return f"{name}({key}): {low if low == high else f'{low} to {high}'} [usable: {high}]"


_ENDPOINT = "{:<10} {:<{width}} {:<10} {:<10} {:<10} {:<15}"


def cluster(options: Options) -> int:
    async def work(admin: "Admin") -> int:
        lists_fenced = options.words[0] == "unregister" or "include-fenced-brokers" in options
        described = await admin.describe_cluster(include_fenced_brokers=lists_fenced)
        match options.words[0]:
            case "cluster-id":
                out(f"Cluster ID: {described.cluster_id}")
            case "list-endpoints":
                listed = {**described.fenced_nodes, **described.nodes}
                width = max((len(host) for host, _ in listed.values()), default=0)
                out(_ENDPOINT.format("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE", width=width))
                for node_id, (host, port) in sorted(listed.items()):
                    state = "unfenced" if node_id in described.nodes else "fenced"
                    out(_ENDPOINT.format(node_id, host, port, "null", state, "broker", width=width))
            case _:
                options.value("id")
                node_id = options.number("id", -1)
                if node_id in described.fenced_nodes:
                    raise Wrong(f"broker {node_id} is fenced: it has ended, and registers itself when it starts again")
                if node_id not in described.nodes:
                    raise Wrong(f"Broker ID {node_id} is not currently registered")
                raise Wrong(f"broker {node_id} serves this cluster: it registers itself, and ends with its process")
        return 0

    return ask(options, work)


_TIMES = {"-1": "latest", "-2": "earliest", "-3": "max_timestamp", "latest": "latest", "earliest": "earliest"}


def get_offsets(options: Options) -> int:
    async def work(admin: "Admin") -> int:
        from oncelog.client.values.records import TopicPartition

        wanted = options.get("topic")
        names = await admin.list_topics(include_internal="exclude-internal-topics" not in options)
        if wanted is not None:
            names = [name for name in names if re.fullmatch(wanted.replace(",", "|"), name)]
            if not names:
                raise Wrong(f"Could not match any topic-partitions with the specified filters: {wanted}")
        numbers = {int(each) for each in (options.get("partitions") or "").split(",") if each}
        places = [
            TopicPartition(topic.name, index)
            for topic in (await admin.describe_topics(*names) if names else [])
            for index in range(topic.partition_count)
            if not numbers or index in numbers
        ]
        when = options.get("time", "latest") or "latest"
        found = await admin.list_offsets(places, _TIMES[when] if when in _TIMES else int(when))
        out(*(f"{place.topic}:{place.partition}:{found[place].offset}" for place in sorted(places)))
        return 0

    return ask(options, work)


def cub(options: Options) -> int:
    """`cub kafka-ready -b HOST:PORT COUNT SECONDS` of Confluent's images."""
    parser = argparse.ArgumentParser("cub", description=cub.__doc__)
    parser.add_argument("kafka-ready")
    parser.add_argument("-b", "--bootstrap_broker_list", default="localhost:9092")
    parser.add_argument("-c", "--config")
    parser.add_argument("-s", "--security", default="PLAINTEXT")
    parser.add_argument("expected", type=int)
    parser.add_argument("timeout_s", type=float)
    if options.words[:1] != ("kafka-ready",):
        raise Wrong(f"cub {' '.join(options.words)}: only kafka-ready is offered here")
    given = parser.parse_args(options.words)
    if given.security != "PLAINTEXT" and given.config is None:
        raise Wrong(f"cub: --security {given.security} needs --config, a properties file of Kafka's clients")
    if given.expected > 1:
        raise Wrong(f"cub: {given.expected} brokers are expected, and there is one")
    from oncelog.client.values.errors import ConfigError

    try:
        context = None if given.config is None else tls_context(read_client_properties(given.config))
    except (ClientPropertiesError, ConfigError) as error:
        raise Wrong(f"cub: {error}") from error
    host, port = _address(given.bootstrap_broker_list.split(",")[0])
    end_s = time.monotonic() + given.timeout_s
    while True:
        try:
            api_versions(host, port, _TIMEOUT_S, context)
            return 0
        except NotHealthy as error:
            if time.monotonic() >= end_s:
                raise Wrong(f"cub: {error}") from error
        time.sleep(_PAUSE_S)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Wrong(f"{text!r} is not of the form HOST:PORT")
    return host.strip("[]"), int(port)


def nc(options: Options) -> int:
    """`nc -z HOST PORT`: whether something listens there."""
    parser = argparse.ArgumentParser("nc", description=nc.__doc__)
    parser.add_argument("-z", action="store_true", required=True)
    parser.add_argument("-v", action="count")
    parser.add_argument("-w", metavar="SECONDS", type=float, default=_TIMEOUT_S)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    given = parser.parse_args(options.words)
    try:
        socket.create_connection((given.host, given.port), given.w).close()
    except OSError as error:
        raise Wrong(f"nc: connect to {given.host} port {given.port} failed: {error.strerror or error}") from error
    return 0
