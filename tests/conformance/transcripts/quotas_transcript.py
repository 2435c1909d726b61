"""A conversation about client quotas that any Kafka-compatible broker can be asked to have (KIP-546, KIP-599).

Owns: the questions, and which part of an answer counts: of times to wait, only whether there is one. Kafka's broker
learns of a change a moment after its controller.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from tests.clients.asking import Asker, Broker, Told, counts, request

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
    talk = Talk(broker)
    yield from chain(_refusals(talk), _descriptions(talk), _mutations(talk), _automatic(talk))


_SHOWN = "error_code:int error_message"


class Talk(Asker):
    def alter(self, *changes: tuple[Entity, Sequence[Operation]], validate_only: bool = False) -> Any:
        entries = [
            (list(entity.items()), [(key, value or 0.0, value is None) for key, value in operations])
            for entity, operations in changes
        ]
        answer = self.change("AlterClientQuotas", 1, entries=entries, validate_only=validate_only)
        return counts(answer, f"entries{{entity:named {_SHOWN}}}", named=lambda parts: _named(parts, ""))

    def change(self, api: str, version: int, **fields: Any) -> Any:
        """Ask for a change, and wait for it to be seen."""
        _forget_connections(self.broker)
        answer = self.ask(api, version, **fields)
        self.broker.let_pass(300)
        return answer

    def throttled(self, api: str, version: int, field: str, **fields: Any) -> Any:
        """The first row of the answer to a change: its error, and whether the client is to wait."""
        answer = self.change(api, version, timeout_ms=5_000, **fields)
        return *counts(answer, f"{field}.0({_SHOWN})"), answer.throttle_time_ms > 0

    def describe(self, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
        answer = self.ask("DescribeClientQuotas", version, components=components, strict=strict)
        error, message, found = counts(
            answer,
            f"{_SHOWN} entries{{entity:named values{{key value}}}}",
            named=lambda parts: _named(parts, "(default)"),
        )
        return error, message, found or []


def _named(parts: Any, default: str) -> list[tuple[str, str]]:
    return sorted((part.entity_type, part.entity_name or default) for part in parts)


def _refusals(talk: Talk) -> Told:
    for entity in ({"user": "u"}, {"client-id": None}, {"user": "u", "client-id": "c"}, {"ip": "10.0.0.1"}):
        for key in (*_KEYS, "nonsense", ""):
            for value in (2.0, 0.0, -1.0, 1.5, 1e10, 1e300, float("inf"), float("nan"), None):
                yield f"refusals: {entity} {key} {value}", talk.alter((entity, [(key, value)]))
        yield f"refusals: {entity}, all removed", talk.alter((entity, [(key, None) for key in _KEYS]))
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
        yield f"refusals: {name}", talk.alter(*changes)
        yield f"refusals: after {name}", talk.describe()
        for entity in ({"user": "x"}, {"user": "y"}, {"ip": "localhost"}):
            talk.alter((entity, [(key, None) for key in _KEYS]))
    yield "refusals: only to validate", talk.alter(({"user": "x"}, [good]), validate_only=True)
    yield "refusals: after only to validate", talk.describe()


def _descriptions(talk: Talk) -> Told:
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
        talk.alter((entity, [("producer_byte_rate", 1_000.0 + number)]))
    talk.alter(({"ip": "10.0.0.1"}, [("connection_creation_rate", 7.0)]))
    talk.alter(({"ip": None}, [("connection_creation_rate", 8.0)]))
    talk.alter(({"user": "a"}, [("request_percentage", 12.5)]))
    matches: list[tuple[int, str | None]] = [(_EXACT, "a"), (_EXACT, "z"), (_DEFAULT, None), (_ANY, None)]
    yield "descriptions: all", talk.describe()
    yield "descriptions: all, strictly", talk.describe(strict=True)
    for strict in (False, True):
        for kind in ("user", "client-id", "ip"):
            for how, match in matches:
                said = talk.describe((kind, how, match), strict=strict)
                yield f"descriptions: {kind} {how} {match}, {strict}", said
        for how, match in matches:
            for other in matches:
                components = (("user", how, match), ("client-id", *other))
                yield f"descriptions: {components}, {strict}", talk.describe(*components, strict=strict, version=0)
    for entity in entities:
        talk.alter((entity, [(key, None) for key in _KEYS]))
    talk.alter(({"ip": "10.0.0.1"}, [("connection_creation_rate", None)]))
    yield "descriptions: all but one removed", talk.describe()
    talk.alter(({"ip": None}, [("connection_creation_rate", None)]))


def _mutations(talk: Talk) -> Told:
    """One partition a second, eleven at once."""
    rate = "controller_mutation_rate"

    def limit(entity: Entity, value: float | None) -> None:
        talk.alter((entity, [(rate, value)]))
        talk.broker.let_pass(3_000)  # Kafka's controller counts by it a while after it is described

    def created(name: str, partitions: int, version: int, validate_only: bool = False) -> Any:
        fields = {"topics": [(name, partitions, 1)], "validate_only": validate_only}
        return talk.throttled("CreateTopics", version, "topics", **fields)

    def grown(name: str, count: int, version: int) -> Any:
        return talk.throttled("CreatePartitions", version, "results", topics=[(name, count, None)])

    def deleted(name: str, version: int) -> Any:
        wanted = {"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]}
        return talk.throttled("DeleteTopics", version, "responses", **wanted)

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


def _automatic(talk: Talk) -> Told:
    """Topics that Metadata creates: a tenth of a partition a second, so that two are above it for as long as we ask.
    Kafka's broker does not wait for its controller: what the first request says of them does not count."""
    rate = "controller_mutation_rate"

    def asked(names: Sequence[str] | None, version: int, client_id: str) -> Any:
        _forget_connections(talk.broker)
        topics = None if names is None else [{"name": name} for name in names]
        return talk.broker.send(request("Metadata", topics=topics), version, client_id=client_id).message

    def limited(label: str, entity: Entity, version: int, client_id: str) -> Told:
        talk.alter((entity, [(rate, 0.1)]))
        talk.broker.let_pass(3_000)
        names = [f"automatic-{client_id}-{each}" for each in range(5)]
        asked(names, version, client_id)
        talk.broker.let_pass(500)
        count = sum(topic.name in names for topic in asked(None, 12, client_id).topics)
        answer = asked(names, version, client_id)
        codes = sorted(topic.error_code for topic in answer.topics)
        yield f"automatic: {label}, version {version}", (count, codes, answer.throttle_time_ms > 0)
        created = request("CreateTopics", topics=[(f"{names[0]}-explicit", 1, 1)], timeout_ms=5_000)
        explicit = talk.broker.send(created, 7, client_id=client_id).message.topics[0].error_code
        yield f"automatic: {label}, version {version}, and CreateTopics", explicit
        talk.alter((entity, [(rate, None)]))
        talk.broker.let_pass(1_000)

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
