"""A conversation of two clients about the rights that share groups (KIP-932) and streams groups (KIP-1071) need: one
may do everything, the other has few rights at a time and asks everything with them.

Owns: the requests and the rights. Does not own: who the two clients are (`authorization_transcript`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from oncelog.protocol.acls import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from oncelog.protocol.message import Message
from tests.clients.asking import Told, text_of
from tests.clients.share_requests import ACCEPT, ShareMember
from tests.clients.streams_requests import subtopology, topic_info, topology
from tests.conformance.transcripts.admin_configs_transcript import GROUP, SET, ConfigTalk
from tests.conformance.transcripts.authorization_transcript import (
    ADMIN,
    CLIENT,
    NODE,
    TwoClients,
    _acl,
    _delete_of_client,
    create,
)
from tests.conformance.transcripts.share_offsets_transcript import OffsetTalk
from tests.conformance.transcripts.share_state_transcript import StateTalk

Right = tuple[AclOperation, ResourceType]
TOPICS = {"given": 1, "other": 1}
LEFT, STREAMS, MADE = "given-left", "given-streams", "given-changelog"
_NAMES = {
    ResourceType.GROUP: ("given", LEFT, STREAMS),
    ResourceType.TOPIC: ("given", MADE),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
}
_PAUSE_MS = 400
_READ, _DESCRIBE = (AclOperation.READ, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.GROUP)
_READ_TOPIC, _DESCRIBE_TOPIC = (AclOperation.READ, ResourceType.TOPIC), (AclOperation.DESCRIBE, ResourceType.TOPIC)
_DELETE = (AclOperation.DELETE, ResourceType.GROUP)
RIGHTS: Sequence[Sequence[Right]] = (
    (),
    (_READ,),
    (_DESCRIBE,),
    (_DELETE,),
    (_READ, _READ_TOPIC),
    (_READ, _DESCRIBE_TOPIC),
    (_DESCRIBE, _DESCRIBE_TOPIC),
    (_DELETE, _READ_TOPIC),
    (_READ, _DESCRIBE_TOPIC, (AclOperation.CREATE, ResourceType.TOPIC)),
    (_READ, _DESCRIBE_TOPIC, (AclOperation.CREATE, ResourceType.CLUSTER)),
    ((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
    ((AclOperation.DESCRIBE, ResourceType.CLUSTER),),
    ((AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP),),
    ((AclOperation.ALTER_CONFIGS, ResourceType.GROUP),),
)


class _Answered(NamedTuple):
    message: Any
    is_there: bool = True


class _From:
    """The broker, as one of the two asks it."""

    def __init__(self, broker: TwoClients, source: str) -> None:
        self._broker = broker
        self._source = source

    def send(self, request: Message, version: int, *, client_id: str = "client") -> _Answered:
        assert client_id
        return _Answered(self.ask(request, version))

    def ask(self, request: Message, version: int) -> Any:
        return self._broker.ask(request, version, self._source)

    def let_pass(self, delay_ms: int) -> None:
        self._broker.let_pass(delay_ms)


def conversation(broker: TwoClients) -> Told:
    """Yield each question with its answers, each with the rights by which it is given; `broker` must be fresh."""
    found: dict[str, dict[str, list[str]]] = {}
    for question, said, answer in _asked(broker):
        found.setdefault(question, {}).setdefault(repr(answer), []).append(said)
    for question, by_answer in found.items():
        usual = max(by_answer, key=lambda answer: len(by_answer[answer]))
        yield question, {"else" if of == usual else "; ".join(by_answer[of]): of for of in by_answer}


def _asked(broker: TwoClients) -> Iterator[tuple[str, str, Any]]:
    """Question, rights, answer."""
    admin, client = OffsetTalk(_From(broker, ADMIN)), OffsetTalk(_From(broker, CLIENT))
    state = StateTalk(_From(broker, CLIENT))
    kinds = [(kind, CLUSTER_NAME if kind == ResourceType.CLUSTER else "*") for kind in OPERATIONS]
    rules = [_acl(AclOperation.ALL, kind, named, host) for kind, named in kinds for host in (NODE, ADMIN)]
    broker.ask(create(rules), 3, ADMIN)
    broker.let_pass(_PAUSE_MS)
    admin.prepare(**TOPICS)
    client.ids = state.ids = admin.ids
    for rights in RIGHTS:
        for group_id in ("given", "other", LEFT):
            admin.join(group_id, "admin", *TOPICS)
            admin.initialized(group_id, *TOPICS)
        broker.let_pass(3 * _PAUSE_MS)
        for group_id in ("given", "other"):
            admin.beat(group_id, "admin", admin.group(group_id)[6][0][2])
        admin.beat(LEFT, "admin", -1)
        given = [_acl(*right, named, CLIENT) for right in rights for named in _NAMES[right[1]]]
        if given:
            broker.ask(create(given), 3, ADMIN)
        broker.let_pass(_PAUSE_MS)
        said = " and ".join(f"{operation.name} {kind.name}" for operation, kind in rights) or "nothing"
        for part in (groups, records, offsets, configs, streams, deleted):
            for question, answer in part(client):
                yield question, said, answer
        for question, answer in states(state):
            yield question, said, answer
        broker.ask(_delete_of_client(), 3, ADMIN)
        admin.beat("given", "client", -1)
        admin.streams_beat(STREAMS, "client", -1)
        broker.let_pass(_PAUSE_MS)


def groups(client: OffsetTalk) -> Told:
    for group_id, topics in (("given", ("given",)), ("given", ("given", "other")), ("other", ("given",))):
        yield f"join {group_id} for {topics}", client.join(group_id, "client", *topics)[:2]
    yield "report", client.beat("given", "stranger", 5)[:2]
    for group_id in ("given", "other", LEFT):
        found = client.group(group_id, include_authorized_operations=True)
        yield f"described {group_id}", (*found[:3], found[-1])
    yield "listed", client.listed(types_filter=["share"])
    key = f"given:{text_of(client.ids['given'])}:0"
    asked = {"coordinator_keys": [key], "key_type": 2}
    yield "found", client.ask("FindCoordinator", 6, "coordinators(error_code error_message)", **asked)


def records(client: OffsetTalk) -> Told:
    for group_id in ("given", "other"):
        member = ShareMember(client, group_id, "client", topic="given")
        fetched = member.fetch(0, ("other", 0))
        yield f"fetched of {group_id}", (fetched[:2], [place[:3] for place in fetched[3] if place[1] != "NONE"])
        done = member.acknowledge(acknowledged={0: [(0, 0, [ACCEPT])], ("other", 0): [(0, 0, [ACCEPT])]}, epoch=1)
        yield f"acknowledged of {group_id}", (done[:2], [place[0:2] for place in done[3] if "AUTHOR" in place[1]])
        member.acknowledge(acknowledged={}, epoch=-1)


def offsets(client: OffsetTalk) -> Told:
    for group_id in (LEFT, "other"):
        yield f"offsets of {group_id}", _denied(client.offsets(group_id))
        yield f"offsets of {group_id}, named", _denied(client.offsets(group_id, {"given": [0], "other": [0]}))
        yield f"altered {group_id}", client.alter(group_id, ("given", {0: 0}), ("other", {0: 0}))
        yield f"deleted of {group_id}", client.remove(group_id, "given", "other")


def _denied(answer: Any) -> Any:
    """The comparable part of described offsets: the group's error, and the error of each topic."""
    _, error, message, found = answer
    return error, message, [(topic, shown, *rest[-2:]) for topic, shown, *rest in found]


def configs(client: OffsetTalk) -> Told:
    talk = ConfigTalk(client.broker)
    for group_id in ("given", "other"):
        yield f"settings of {group_id}", talk.described(GROUP, group_id, ["share.isolation.level"])
        change = ("share.isolation.level", SET, "read_committed")
        yield f"settings of {group_id}, tried", talk.tried(GROUP, group_id, change)


def streams(client: OffsetTalk) -> Told:
    made = topology(subtopology("0", "given", changelogs=[topic_info(MADE, 0, 3)]))
    for group_id, of in ((STREAMS, topology(subtopology("0", "other"))), (STREAMS, made), ("other-streams", made)):
        topics = [*of["subtopologies"][0]["source_topics"]]
        answer = client.streams_join(group_id, "client", topology=of)
        yield f"streams: join {group_id} for {topics}", (*answer[:2], answer[5])
    found = client.streams_group(STREAMS, include_authorized_operations=True)
    yield "streams: described", (*found[:3], found[-1])


def deleted(client: OffsetTalk) -> Told:
    yield "deleted", client.delete_each(LEFT, "other")


def states(client: StateTalk) -> Told:
    client.group_id = "state"
    told = {question: [entry[:4] for entry in answer] for question, answer in client.each(("given", 0)).items()}
    yield "states", told


_NO_GROUP, _NO_TOPIC = ("GROUP_AUTHORIZATION_FAILED", "Group authorization failed."), "TOPIC_AUTHORIZATION_FAILED"
_HIDDEN = "Kafka shows the id of a topic that the client may not read, and so that there is one"
_AT_ONCE = "Kafka creates internal topics after the response, and says with a later one why it could not"
_DELAYED = (5, "Assignment delayed due to the configured initial rebalance delay.")
_MISSING = "Internal topics are missing: given-changelog; "
_TOO_MANY = (
    "Creation failed: given-changelog (Unable to replicate the partition 3 time(s): The target replication factor of 3 "
    "cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories "
    "cordoned.)."
)


def _denied_topic(name: str) -> tuple[object, ...]:
    return name, "zero", 0, _NO_TOPIC, "Topic authorization failed."


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "altered given-left": (
        _HIDDEN,
        {
            "else": repr((*_NO_GROUP, [])),
            "READ GROUP; READ GROUP and DESCRIBE TOPIC; READ GROUP and DESCRIBE TOPIC and CREATE TOPIC; "
            "READ GROUP and DESCRIBE TOPIC and CREATE CLUSTER": repr(
                ("NONE", None, [_denied_topic("given"), _denied_topic("other")])
            ),
            "READ GROUP and READ TOPIC": repr(
                ("NONE", None, [("given", "given", 0, "NONE", None), _denied_topic("other")])
            ),
        },
    ),
    "streams: join given-streams for ['given']": (
        _AT_ONCE,
        {
            "else": repr((_NO_GROUP[0], None, [])),
            "READ GROUP": repr((_NO_TOPIC, None, [])),
            "READ GROUP and READ TOPIC; READ GROUP and DESCRIBE TOPIC": repr(
                ("NONE", None, [_DELAYED, (3, f"{_MISSING}Unauthorized to CREATE on topics given-changelog.")])
            ),
            "READ GROUP and DESCRIBE TOPIC and CREATE TOPIC; READ GROUP and DESCRIBE TOPIC and CREATE CLUSTER": repr(
                ("NONE", None, [_DELAYED, (3, _MISSING + _TOO_MANY)])
            ),
        },
    ),
}
