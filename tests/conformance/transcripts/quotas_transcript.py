"""A conversation about client quotas that any Kafka-compatible broker can be asked to have (KIP-546, KIP-599).

Owns: the questions, and which part of an answer counts: of times to wait, only whether there is one. Kafka's broker
learns of a change a moment after its controller.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.clients.group_members import Broker

Told = Iterator[tuple[str, Any]]
Entity = Mapping[str, str | None]
Operation = tuple[str, float | None]
"""A key and its new value; None removes it."""
_KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_EXACT, _DEFAULT, _ANY = range(3)

_NO_NUMBER = "not a number limits nobody, and is a mistake"
_TWICE = "Kafka reports an error and takes the first"
_NAME = "to resolve a name can take seconds: an address is wanted"
DIFFERENCES: dict[str, tuple[str, object]] = {
    f"refusals: {entity} {key} nan": (_NO_NUMBER, [(shown, 42, f"Quota {key} must be a number")])
    for entity, shown, keys in (
        ({"user": "u"}, [("user", "u")], _KEYS[:-1]),
        ({"client-id": None}, [("client-id", "")], _KEYS[:-1]),
        ({"user": "u", "client-id": "c"}, [("client-id", "c"), ("user", "u")], _KEYS[:-1]),
        ({"ip": "10.0.0.1"}, [("ip", "10.0.0.1")], _KEYS[-1:]),
    )
    for key in keys
} | {
    "refusals: after an entity twice": (_TWICE, (0, "", [])),
    "refusals: an ip as a name": (
        _NAME,
        [([("ip", "localhost")], 42, "localhost is not a valid IP or resolvable host.")],
    ),
    "refusals: after an ip as a name": (_NAME, (0, "", [])),
}


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    yield from chain(_refusals(broker), _descriptions(broker), _mutations(broker), _automatic(broker))


def alter(broker: Broker, *changes: tuple[Entity, Sequence[Operation]], validate_only: bool = False) -> Any:
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in operations],
        )
        for entity, operations in changes
    ]
    _forget_connections(broker)
    answer = broker.ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), 1)
    broker.let_pass(300)
    return sorted((_entity(entry, ""), entry.error_code, entry.error_message) for entry in answer.entries)


def describe(broker: Broker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    parts = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    answer = broker.ask(DescribeClientQuotasRequest(components=parts, strict=strict), version)
    entries = sorted(
        (_entity(entry, "(default)"), sorted((each.key, each.value) for each in entry.values))
        for entry in answer.entries or ()
    )
    return answer.error_code, answer.error_message, entries


def _entity(entry: Any, default: str) -> list[tuple[str, str]]:
    return sorted((part.entity_type, part.entity_name or default) for part in entry.entity)


def _refusals(broker: Broker) -> Told:
    for entity in ({"user": "u"}, {"client-id": None}, {"user": "u", "client-id": "c"}, {"ip": "10.0.0.1"}):
        for key in (*_KEYS, "nonsense", ""):
            for value in (2.0, 0.0, -1.0, 1.5, 1e10, 1e300, float("inf"), float("nan"), None):
                yield f"refusals: {entity} {key} {value}", alter(broker, (entity, [(key, value)]))
        yield f"refusals: {entity}, all removed", alter(broker, (entity, [(key, None) for key in _KEYS]))
    good, bad = ("producer_byte_rate", 5.0), ("producer_byte_rate", -5.0)
    for name, changes in {
        "one of two keys": [({"user": "x"}, [("consumer_byte_rate", 5.0), bad])],
        "one of two entities": [({"user": "x"}, [good]), ({"user": "y"}, [bad])],
        "an entity twice": [({"user": "x"}, [good]), ({"user": "x"}, [("consumer_byte_rate", 5.0)])],
        "a key twice": [({"user": "x"}, [good, good])],
        "an unknown kind beside a good one": [({"user": "x"}, [good]), ({"planet": "x"}, [good])],
        "ip and user": [({"ip": "10.0.0.1", "user": "x"}, [("connection_creation_rate", 5.0)])],
        "an ip that is none": [({"ip": "no such host."}, [("connection_creation_rate", 5.0)])],
        "an ip as a name": [({"ip": "localhost"}, [("connection_creation_rate", 5.0)])],
    }.items():
        yield f"refusals: {name}", alter(broker, *changes)
        yield f"refusals: after {name}", describe(broker)
        for entity in ({"user": "x"}, {"user": "y"}, {"ip": "localhost"}):
            alter(broker, (entity, [(key, None) for key in _KEYS]))
    yield "refusals: only to validate", alter(broker, ({"user": "x"}, [good]), validate_only=True)
    yield "refusals: after only to validate", describe(broker)


def _descriptions(broker: Broker) -> Told:
    entities: list[Entity] = [
        {"user": "a"},
        {"user": "b"},
        {"user": None},
        {"client-id": "a"},
        {"client-id": None},
        {"user": "a", "client-id": "a"},
        {"user": "a", "client-id": None},
        {"user": None, "client-id": "a"},
        {"user": None, "client-id": None},
    ]
    for number, entity in enumerate(entities):
        alter(broker, (entity, [("producer_byte_rate", 1_000.0 + number)]))
    alter(broker, ({"ip": "10.0.0.1"}, [("connection_creation_rate", 7.0)]))
    alter(broker, ({"ip": None}, [("connection_creation_rate", 8.0)]))
    alter(broker, ({"user": "a"}, [("request_percentage", 12.5)]))
    matches: list[tuple[int, str | None]] = [(_EXACT, "a"), (_EXACT, "z"), (_DEFAULT, None), (_ANY, None)]
    yield "descriptions: all", describe(broker)
    yield "descriptions: all, strictly", describe(broker, strict=True)
    for strict in (False, True):
        for kind in ("user", "client-id", "ip"):
            for how, match in matches:
                said = describe(broker, (kind, how, match), strict=strict)
                yield f"descriptions: {kind} {how} {match}, {strict}", said
        for how, match in matches:
            for other in matches:
                components = (("user", how, match), ("client-id", *other))
                yield f"descriptions: {components}, {strict}", describe(broker, *components, strict=strict, version=0)
    for entity in entities:
        alter(broker, (entity, [(key, None) for key in _KEYS]))
    alter(broker, ({"ip": "10.0.0.1"}, [("connection_creation_rate", None)]))
    yield "descriptions: all but one removed", describe(broker)
    alter(broker, ({"ip": None}, [("connection_creation_rate", None)]))


def _mutations(broker: Broker) -> Told:
    """One partition a second, eleven at once."""
    rate = "controller_mutation_rate"

    def limit(entity: Entity, value: float | None) -> None:
        alter(broker, (entity, [(rate, value)]))
        broker.let_pass(3_000)  # Kafka's controller counts by it a while after it is described

    def created(name: str, partitions: int, version: int, validate_only: bool = False) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        _forget_connections(broker)
        answer = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only), version)
        broker.let_pass(300)
        result = answer.topics[0]
        return result.error_code, result.error_message, answer.throttle_time_ms > 0

    def grown(name: str, count: int, version: int) -> Any:
        _forget_connections(broker)
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
        answer = broker.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000), version)
        broker.let_pass(300)
        return answer.results[0].error_code, answer.results[0].error_message, answer.throttle_time_ms > 0

    def deleted(name: str, version: int) -> Any:
        _forget_connections(broker)
        wanted = {"topics": [DeleteTopicState(name=name)]} if version >= 6 else {"topic_names": [name]}
        answer = broker.ask(DeleteTopicsRequest(timeout_ms=5_000, **wanted), version)
        broker.let_pass(300)
        return answer.responses[0].error_code, answer.responses[0].error_message, answer.throttle_time_ms > 0

    yield "mutations: before", created("before", 60, 7)
    for strictness, versions in {"strict": (7, 6, 3), "old": (5, 4, 2)}.items():
        create, delete, grow = versions
        limit({"client-id": None}, 1.0)
        yield f"mutations: {strictness}, only to validate", created(f"{strictness}-none", 60, create, True)
        yield f"mutations: {strictness}, after that", created(f"{strictness}-small", 1, create)
        yield f"mutations: {strictness}, many", created(f"{strictness}-many", 60, create)
        yield f"mutations: {strictness}, one more", created(f"{strictness}-one-more", 1, create)
        yield f"mutations: {strictness}, an error is not counted first", created("before", 1, create)
        yield f"mutations: {strictness}, grow", grown("before", 61 if strictness == "old" else 70, grow)
        yield f"mutations: {strictness}, delete", deleted(f"{strictness}-many", delete)
        limit({"client-id": None}, None)
        yield f"mutations: {strictness}, without the quota", created(f"{strictness}-after", 60, create)
    limit({"client-id": None}, 1.0)
    yield "mutations: old, many at first", created("many-at-first", 60, 5)
    limit({"client-id": None}, None)
    limit({"user": None}, 1.0)
    yield "mutations: delete many", deleted("before", 6)
    yield "mutations: delete after many", deleted("strict-after", 6)


def _automatic(broker: Broker) -> Told:
    """Topics that Metadata creates: a tenth of a partition a second, so that two are above it for as long as we ask.
    Kafka's broker does not wait for its controller: what the first request says of them does not count."""
    rate = "controller_mutation_rate"

    def asked(names: Sequence[str] | None, version: int, client_id: str) -> Any:
        _forget_connections(broker)
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        return broker.send(MetadataRequest(topics=topics), version, client_id=client_id).message

    def limited(label: str, entity: Entity, version: int, client_id: str) -> Told:
        alter(broker, (entity, [(rate, 0.1)]))
        broker.let_pass(3_000)
        names = [f"automatic-{client_id}-{each}" for each in range(5)]
        asked(names, version, client_id)
        broker.let_pass(500)
        created = sum(topic.name in names for topic in asked(None, 12, client_id).topics)
        answer = asked(names, version, client_id)
        codes = sorted(topic.error_code for topic in answer.topics)
        yield f"automatic: {label}, version {version}", (created, codes, answer.throttle_time_ms > 0)
        topic = CreatableTopic(name=f"{names[0]}-explicit", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        explicit = broker.send(request, 7, client_id=client_id).message.topics[0].error_code
        yield f"automatic: {label}, version {version}, and CreateTopics", explicit
        alter(broker, (entity, [(rate, None)]))
        broker.let_pass(1_000)

    for version in (12, 3):
        yield from limited("each user, who has none left", {"user": None}, version, f"user-{version}")
        each = f"each-{version}"
        yield from limited("each client id", {"client-id": None}, version, each)
        own = f"own-{version}"
        yield from limited("this client id", {"client-id": own}, version, own)
        both = f"both-{version}"
        yield from limited("this user and client id", {"user": "ANONYMOUS", "client-id": both}, version, both)
        yield from limited("another client id", {"client-id": "another"}, version, f"other-{version}")


def _forget_connections(broker: Any) -> None:
    """Close the idle connections: a throttled one is not read from for the throttle time in its answer."""
    for connection in getattr(broker, "idle", ()):
        connection.close()
    getattr(broker, "idle", []).clear()
