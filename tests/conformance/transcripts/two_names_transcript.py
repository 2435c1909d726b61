"""A conversation about requests that name one thing in two ways, or a thing of one kind by the name of another, with a
broker that has an authorizer: which of the two is checked, and which is answered.

Owns: the questions, and what counts of an answer. Alice may do everything; bob may describe, read and write the topic
`open` and its settings, read the group `mine`, and write as the transactional id `mine`. All else is alice's: the topic
`secret`, and the transactional id `theirs`, which has a transaction on partition 0 of `open`.
"""

import base64
from collections.abc import Iterator, Mapping
from itertools import chain, product
from typing import Any, NamedTuple
from uuid import UUID

from oncelog.protocol.acls import AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import NO_ID, Told, batch, counts, one_partition, request
from tests.conformance.transcripts.tokens_transcript import (
    ALICE,
    BOB,
    CAROL,
    Clients,
    create,
    describe,
    expire,
    renew,
)
from tests.conformance.transcripts.tokens_transcript import SETTINGS as TOKEN_SETTINGS

SETTINGS = (*TOKEN_SETTINGS, "auto.create.topics.enable=true", "transaction.state.log.num.partitions=1")
_STRANGE_ID = UUID(int=77)
_PAUSE_MS, _PATIENCE = 400, 500
_LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_T, _O = ResourceType, AclOperation
_RIGHTS_OF_BOB = (
    *(
        (_T.TOPIC, "open", operation)
        for operation in (_O.DESCRIBE, _O.READ, _O.WRITE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)
    ),
    (_T.TOPIC, "new", _O.DESCRIBE),
    (_T.GROUP, "mine", _O.READ),
    (_T.TRANSACTIONAL_ID, "mine", _O.WRITE),
)
_OF_NO_NAME = "Kafka fails over a row that names nothing"
_OWN_TRANSACTION = "a batch joins the transaction of its producer id only under that transaction's own id"
IN_KAFKAS_WAY_TOO: Mapping[str, tuple[str, object]] = (
    {
        f"metadata {version}, {who}: name None, id of none": (_OF_NO_NAME, [])
        for who, version in product((BOB, ALICE), (12, 13))
    }
    | {
        f"rule of kind 1 and name {name!r}, {pattern.name}, by alice": (
            "Kafka fails over a kind that only a filter can have",
            ErrorCode.INVALID_REQUEST.name,
        )
        for name, pattern in product(
            ("secret", "kafka-cluster", "*", "", "User:carol"), (PatternType.LITERAL, PatternType.PREFIXED)
        )
    }
    | {
        "replace settings of kind 4 and name '', alice": (
            "Kafka keeps min.insync.replicas of all brokers, which eligible leader replicas need",
            [(ErrorCode.NONE.name, 4, "", None)],
        ),
    }
)
DIFFERENCES = {
    **IN_KAFKAS_WAY_TOO,
    **{
        f"Produce {version}: mine, producer id of theirs, partition in the transaction": (
            _OWN_TRANSACTION,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING.name,
        )
        for version in (3, 8, 9, 11, 12, 13)
    },
}


def conversation(clients: Clients) -> Told:
    """Every question and its answer; the broker must be fresh."""
    scene = _prepared(clients)
    parts = (_metadata, _deletions, _producers, _transactional_ids, _tokens, _settings, _rules)
    yield from chain.from_iterable(part(scene) for part in parts)


# --- the scene --------------------------------------------------------------------------------------------------------


class _Scene(NamedTuple):
    clients: Clients
    ids: dict[str, UUID]
    producers: dict[str, int]


def _prepared(clients: Clients) -> _Scene:
    made = request("CreateTopics", topics=[("open", 2, 1), ("secret", 7, 1)], timeout_ms=5_000)
    clients.ask(made, 7, ALICE)
    allow(clients, *_RIGHTS_OF_BOB)
    for key_type in (0, 1):
        clients.ask(request("FindCoordinator", key_type=key_type, coordinator_keys=["mine"]), 4, ALICE)
    found = clients.ask(request("Metadata", topics=[{"name": "open"}, {"name": "secret"}]), 12, ALICE).topics
    ids = {row.name: row.topic_id for row in found}
    scene = _Scene(clients, ids, {})
    for name, who in (("mine", BOB), ("theirs", ALICE)):
        init = request("InitProducerId", transactional_id=name, transaction_timeout_ms=60_000)
        made = _asked(scene, init, 4, who)
        scene.producers[name] = made.producer_id
    assert _added(scene, "theirs", "theirs", ALICE) == ErrorCode.NONE.name
    assert _produced(scene, "theirs", "theirs", ALICE) == ErrorCode.NONE.name
    return scene


def allow(clients: Clients, *rights: tuple[ResourceType, str, AclOperation]) -> None:
    """Bob."""
    rules = [
        (kind, name, PatternType.LITERAL, f"User:{BOB}", "*", operation, Permission.ALLOW)
        for kind, name, operation in rights
    ]
    clients.ask(request("CreateAcls", creations=rules), 3, ALICE)
    clients.let_pass(_PAUSE_MS)


def _asked(scene: _Scene, asked: Any, version: int, who: str) -> Any:
    """Asked again while the coordinator is not there yet, or a transaction is not ended yet."""
    for _ in range(_PATIENCE):
        answer = scene.clients.ask(asked, version, who)
        if answer is None or not _LATER.intersection(_codes(answer)):
            return answer
        scene.clients.let_pass(20)
    raise AssertionError(f"{asked} was not answered in time")


def _codes(message: Any) -> Iterator[int]:
    for name in message.FIELDS:
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list | tuple):
            for row in value:
                if hasattr(row, "FIELDS"):
                    yield from _codes(row)


def _said(answer: Any) -> str:
    """Its errors, each once; of none, NONE."""
    if answer is None:
        return "closed"
    return ", ".join(dict.fromkeys(ErrorCode(code).name for code in _codes(answer))) or "nothing"


# --- topics -----------------------------------------------------------------------------------------------------------


def _metadata(scene: _Scene) -> Told:
    labels = {_STRANGE_ID: "strange", NO_ID: "none"} | {each: name for name, each in scene.ids.items()}
    names = ("open", "secret", "unknown", None)
    rows = list(product(names, labels))
    for who, version in product((BOB, ALICE), (10, 12, 13)):
        for name, topic_id in rows:
            answer = _found(scene, version, who, labels, (name, topic_id))
            yield f"metadata {version}, {who}: name {name}, id of {labels[topic_id]}", answer
    for first, second in product([(name, each) for name, each in rows if name != "unknown"][:8], repeat=2):
        text = " and ".join(f"{name}/{labels[each]}" for name, each in (first, second))
        yield f"metadata 12, bob: {text}", _found(scene, 12, BOB, labels, first, second)


def _found(scene: _Scene, version: int, who: str, labels: dict[UUID, str], *rows: tuple[str | None, UUID]) -> Any:
    topics = [{"topic_id": topic_id, "name": name} for name, topic_id in rows]
    answer = scene.clients.ask(request("Metadata", topics=topics, allow_auto_topic_creation=False), version, who)
    if answer is None:
        return "closed"
    shape = "topics(error_code name topic_id:label partitions:len)"
    return sorted(counts(answer, shape, label=lambda topic_id: labels.get(topic_id, "?")), key=str)


def _deletions(scene: _Scene) -> Told:
    """Deletions that delete no topic: the user who may delete it names another one beside it."""
    asked = [(who, name, each) for who, name, each in product((BOB, ALICE), ("open", "secret", "unknown"), scene.ids)]
    for who, name, topic in asked:
        deletes = request("DeleteTopics", topics=[(name, scene.ids[topic])], timeout_ms=5_000)
        answer = scene.clients.ask(deletes, 6, who)
        rows = None if answer is None else counts(answer, "responses(error_code name)")
        yield f"delete, {who}: name {name}, id of {topic}", rows
    there = scene.clients.ask(request("Metadata", topics=None), 12, ALICE).topics
    yield "delete: what is there afterwards", sorted(row.name for row in there if not row.is_internal)


# --- transactions -----------------------------------------------------------------------------------------------------


def _added(scene: _Scene, transactional_id: str, owner: str, who: str, version: int = 3, partition: int = 0) -> str:
    adds = request(
        "AddPartitionsToTxn",
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=scene.producers[owner],
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[("open", [partition])],
    )
    return _said(_asked(scene, adds, version, who))


def _produced(
    scene: _Scene,
    transactional_id: str | None,
    owner: str,
    who: str,
    *,
    version: int = 9,
    partition: int = 0,
    sequence: int = 0,
    transactional: bool = True,
) -> str:
    records = batch(
        [who.encode()],
        scene.clients.now_ms(),
        producer_id=scene.producers[owner],
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    data = [{"index": partition, "records": records}]
    topics = [{"name": "open", "topic_id": scene.ids["open"], "partition_data": data}]
    asked = request("Produce", acks=-1, timeout_ms=5_000, transactional_id=transactional_id, topic_data=topics)
    return _said(_asked(scene, asked, version, who))


def _theirs(scene: _Scene) -> Any:
    """Describe the transaction that is alice's."""
    answer = scene.clients.ask(request("DescribeTransactions", transactional_ids=["theirs"]), 0, ALICE)
    return counts(answer, "transaction_states.0(transaction_state producer_epoch topics(topic partitions{}))")


def _requests_of(scene: _Scene, transactional_id: str, owner: str) -> Iterator[tuple[str, Any, int]]:
    ids = {"transactional_id": transactional_id, "producer_id": scene.producers[owner], "producer_epoch": 0}
    of_one = {f"v3_and_below_{name}": value for name, value in {**ids, "topics": [("open", [1])]}.items()}
    for version in range(4):
        yield "AddPartitionsToTxn", request("AddPartitionsToTxn", **of_one), version
    for version in range(5):
        yield "AddOffsetsToTxn", request("AddOffsetsToTxn", **ids, group_id="mine"), version
    topics = one_partition("open", committed_offset=1)
    for version in range(6):
        yield "TxnOffsetCommit", request("TxnOffsetCommit", **ids, group_id="mine", topics=topics), version
    for version, committed in product(range(6), (True, False)):
        yield f"EndTxn {committed}", request("EndTxn", **ids, committed=committed), version
    for version in (3, 4, 5):
        yield "InitProducerId", request("InitProducerId", **ids, transaction_timeout_ms=60_000), version


def _producers(scene: _Scene) -> Told:
    """Bob's transactional id beside the producer id of alice's transaction."""
    for what, asked, version in _requests_of(scene, "mine", "theirs"):
        yield f"{what} {version}: mine, producer id of theirs", _said(_asked(scene, asked, version, BOB))
    yield "requests: theirs afterwards", _theirs(scene)
    next_sequence = {0: 1, 1: 0}
    for partition, version in product((0, 1), (3, 8, 9, 11, 12, 13)):
        said = _produced(
            scene, "mine", "theirs", BOB, version=version, partition=partition, sequence=next_sequence[partition]
        )
        next_sequence[partition] += said == ErrorCode.NONE.name
        where = "in the transaction" if partition == 0 else "not in it"
        yield f"Produce {version}: mine, producer id of theirs, partition {where}", said
    yield "Produce: theirs afterwards", _theirs(scene)


def _transactional_ids(scene: _Scene) -> Told:
    """A transactional id that is alice's, or none, beside bob's own producer id."""
    for what, asked, version in _requests_of(scene, "theirs", "mine"):
        if not what.startswith("InitProducerId"):
            yield f"{what} {version}: theirs, producer id of mine", _said(_asked(scene, asked, version, BOB))
    for version, transactional_id, transactional in product((3, 9, 11, 12, 13), ("theirs", None), (True, False)):
        if transactional_id is None and not transactional:
            continue
        said = _produced(scene, transactional_id, "mine", BOB, version=version, transactional=transactional)
        kind = "transactional" if transactional else "plain"
        yield f"Produce {version}: {transactional_id}, producer id of mine, a {kind} batch", said
    yield "transactional ids: theirs afterwards", _theirs(scene)


# --- tokens -----------------------------------------------------------------------------------------------------------


def _tokens(scene: _Scene) -> Told:
    clients = scene.clients
    theirs = create(clients, ALICE, renewers=(f"User:{CAROL}",))
    mine = create(clients, BOB)
    texts = {
        "its id": theirs.token_id.encode(),
        "its HMAC in base64": base64.b64encode(theirs.hmac),
        "its HMAC": theirs.hmac,
        "the beginning of its HMAC": theirs.hmac[:32],
        "the HMAC of his own and its id": mine.hmac + theirs.token_id.encode(),
    }
    for who, (what, text) in product((BOB, ALICE), texts.items()):
        yield f"token of alice, {who} renews by {what}", renew(clients, text, who=who)
        if (who, what) != (ALICE, "its HMAC"):
            yield f"token of alice, {who} expires by {what}", expire(clients, text, who=who)
    owners = ((), (f"User:{ALICE}",), (f"User:{BOB}",), (f"User:{ALICE}", f"User:{BOB}"), (f"User:{CAROL}",))
    rights = (
        ("no right", ()),
        ("a right on the HMAC", ((_T.DELEGATION_TOKEN, base64.b64encode(theirs.hmac).decode(), _O.DESCRIBE),)),
        ("a right on a topic of its id", ((_T.TOPIC, theirs.token_id, _O.DESCRIBE),)),
        ("a right on its id", ((_T.DELEGATION_TOKEN, theirs.token_id, _O.DESCRIBE),)),
        ("a right on the user carol", ((_T.USER, f"User:{CAROL}", _O.DESCRIBE_TOKENS),)),
        ("a right on the user alice", ((_T.USER, f"User:{ALICE}", _O.DESCRIBE_TOKENS),)),
    )
    for what, given in rights:
        if given:
            allow(clients, *given)
        for asked in owners:
            yield f"tokens, {what}: bob asks for {asked}", describe(clients, BOB, *asked)
    yield "token of alice: bob creates for her", _said(create(clients, BOB, owner=ALICE))
    answer = _said(create(clients, BOB, owner=ALICE, renewers=(f"User:{BOB}",)))
    yield "token of alice: bob creates for her, and renews himself", answer


# --- settings ---------------------------------------------------------------------------------------------------------

_KINDS = (0, 1, 2, 3, 4, 8, 16, 32, 64, 127)
_NAMES = ("open", "secret", "mine", "new", "1", "2", "", "kafka-cluster")
_KEYS = {
    2: ("retention.ms", "1000000"),
    4: ("message.max.bytes", "1000000"),
    8: ("org.apache.kafka", "INFO"),
    16: ("interval.ms", "1000"),
    32: ("consumer.session.timeout.ms", "50000"),
}


_TRIED = {"validate_only": True}


def _settings(scene: _Scene) -> Told:
    for who, kind, name in product((BOB, ALICE), _KINDS, _NAMES):
        key, value = _KEYS.get(kind, _KEYS[2])
        what = f"of kind {kind} and name {name!r}, {who}"
        answers = (
            ("describe", 4, request("DescribeConfigs", resources=[(kind, name, [key])])),
            ("alter", 1, request("IncrementalAlterConfigs", resources=[(kind, name, [(key, 0, value)])], **_TRIED)),
            ("replace", 2, request("AlterConfigs", resources=[(kind, name, [(key, value)])], **_TRIED)),
        )
        for verb, version, asked in answers:
            yield f"{verb} settings {what}", _rows(scene.clients.ask(asked, version, who), verb)


def _rows(answer: Any, verb: str) -> Any:
    if answer is None:
        return "closed"
    each = "error_code resource_type resource_name"
    if verb == "describe":
        return counts(answer, f"results({each} configs:bool)")
    return [(*row, None) for row in counts(answer, f"responses({each})")]


# --- rules ------------------------------------------------------------------------------------------------------------


def _rules(scene: _Scene) -> Told:
    """Rules of a kind and a name that does not belong to it, and what a rule allows on another kind of that name."""
    clients = scene.clients
    names = ("secret", "kafka-cluster", "*", "", f"User:{CAROL}")
    for who, kind, name, pattern in product(
        (BOB, ALICE), range(1, 8), names, (PatternType.LITERAL, PatternType.PREFIXED)
    ):
        rule = (kind, name, pattern, "User:eve", "*", _O.DESCRIBE, Permission.ALLOW)
        answer = clients.ask(request("CreateAcls", creations=[rule]), 3, who)
        yield f"rule of kind {kind} and name {name!r}, {pattern.name}, by {who}", _said(answer)
    for kind in (_T.GROUP, _T.TRANSACTIONAL_ID, _T.DELEGATION_TOKEN):
        allow(clients, (kind, "secret", _O.DESCRIBE))
    topic = request("Metadata", topics=[{"name": "secret"}], allow_auto_topic_creation=False)
    yield "rules on a group, id and token named secret: the topic", _said(clients.ask(topic, 12, BOB))
    for kind in (2, 32):
        answer = clients.ask(request("DescribeConfigs", resources=[(kind, "secret", None)]), 4, BOB)
        yield f"rules on a group, id and token named secret: settings of kind {kind}", _said(answer)
