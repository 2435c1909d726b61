"""A conversation about streams groups (KIP-1071): heartbeats, topologies, internal topics, tasks, and what a group of
one kind answers to requests for another.

Owns: the questions, and which part of an answer counts: errors, epochs, status, tasks, topics by name.
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.share_requests import ERROR
from tests.clients.streams_requests import COUNTS, subtopology, topic_info, topology
from tests.conformance.transcripts.share_group_transcript import GroupTalk

SIZE = 4
SETTINGS = ("group.streams.initial.rebalance.delay.ms=0", f"group.streams.max.size={SIZE}")
_TOPIC = 2


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = GroupTalk(broker)
    talk.prepare(log=4, other=2, six=6)
    yield from parts_of(
        talk,
        validation,
        topologies,
        one_member,
        two_members,
        versions_of_topology,
        source_topics,
        internal_topics,
        copartitioned,
        standbys,
        endpoints,
        shutdown,
        delayed,
        sizes,
        offsets,
        kinds,
        ended,
    )


def _partitions(talk: GroupTalk, *topics: str) -> Any:
    """How many partitions each topic has, once it is there."""
    asked = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
    shape = "topics{name error_code partitions:len}"
    return talk.until(lambda found: all(error == "NONE" for _, error, _ in found), "Metadata", 12, shape, **asked)


def _configs(talk: GroupTalk, topic: str) -> Any:
    """The settings of a topic that differ from the defaults."""
    asked = [{"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": None}]
    found = talk.ask("DescribeConfigs", 4, "results.0.configs{name value config_source}", resources=asked)
    return [(name, value) for name, value, source in found if source == 1]


def _epoch(talk: GroupTalk, group: str, member_id: str) -> int:
    """The member's, as the group has it."""
    (epoch,) = [member[1] for member in talk.streams_group(group)[6] if member[0] == member_id]
    found: int = epoch
    return found


def validation(talk: GroupTalk) -> Told:
    joins: tuple[dict[str, Any], ...] = (
        {"instance_id": "i"},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 0},
        {"topology": None},
        {"process_id": None},
        {"process_id": ""},
        {"client_tags": [("zone", "a")]},
    )
    for said in joins:
        question = f"join with {sorted(said)} {said if 'client_tags' not in said else ''}"
        yield question, talk.streams_join("v", "m", **said)
        talk.streams_beat("v", "m", -1)
    for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
        yield f"join with {kind}", talk.streams_join("v", "m", **{kind: {"0": [0]}})
        yield f"join with {kind} of nothing", talk.streams_join("v", "m", **{kind: {"0": []}})
        yield f"join with no {kind}", talk.streams_join("v", "m", **{kind: None})
        talk.streams_beat("v", "m", -1)
    offset = [("0", 0, 1)]
    for kind in ("task_offsets", "task_end_offsets"):
        yield f"join with {kind}", talk.streams_join("v", "m", **{kind: offset})
        yield f"join with empty {kind}", talk.streams_join("v", "m", **{kind: []})
    yield "join without a group", talk.streams_join("", "m")
    yield "join without a member id", talk.streams_join("v", "")
    yield "join with a long member id", talk.streams_join("v long", "m" * 50)[:4]
    for epoch in (3, -1, -2, -3):
        yield f"epoch {epoch} in no group", talk.streams_beat("none", "m", epoch)
    yield "static leave of no group", talk.streams_beat("none", "m", -2, instance_id="i")
    yield "report with a topology", talk.streams_beat("v", "m", 1, topology=COUNTS)
    yield "report with active tasks alone", talk.streams_beat("v", "m", 1, active_tasks={"0": [0]})
    yield "report with warm-up tasks", talk.owning("v", "m", 1, {}, warmup_tasks={"0": [0]})
    yield "no group", talk.streams_group("none")
    yield "no group id", talk.streams_group("")


def topologies(talk: GroupTalk) -> Told:
    """Topologies of a first member."""
    changelog = topic_info("store-changelog")
    for question, of in (
        ("nothing", topology()),
        ("an epoch below zero", topology(subtopology("0", "log"), epoch=-1)),
        ("a subtopology without topics", topology(subtopology("0"))),
        ("a changelog without a source", topology(subtopology("0", changelogs=[changelog]))),
        ("a changelog with partitions", topology(subtopology("0", "log", changelogs=[topic_info("c", 3)]))),
        ("a regular expression", topology(subtopology("0", regex=["l.*"]))),
        ("the same subtopology twice", topology(subtopology("0", "log"), subtopology("0", "other"))),
        ("an internal topic", topology(subtopology("0", "__consumer_offsets", "__transaction_state"))),
        ("an invalid name", topology(subtopology("0", "a b", ""))),
        ("a repartition topic that nobody writes", topology(subtopology("0", repartitioned=[topic_info("r")]))),
        (
            "repartition topics in a circle",
            topology(
                subtopology("0", sinks=["r1"], repartitioned=[topic_info("r2")]),
                subtopology("1", sinks=["r2"], repartitioned=[topic_info("r1")]),
            ),
        ),
    ):
        group = f"t {question}"
        yield question, talk.streams_join(group, "m", topology=of)
        yield f"{question}, described", talk.streams_group(group)


def one_member(talk: GroupTalk) -> Told:
    group = "one"
    tags = [("zone", "a")]
    yield "joins", talk.streams_join(group, "m", rack_id="rack", client_tags=tags)
    yield "joins, described", talk.streams_group(group)
    for epoch in (1, 2, 3, 9):
        yield f"reports {epoch}", talk.streams_beat(group, "m", epoch)
    epoch = _epoch(talk, group, "m")
    yield "says what it has", talk.owning(group, "m", epoch, {"0": [0, 1, 2, 3]})
    yield "says that it has less", talk.owning(group, "m", epoch, {"0": [0, 1]})
    yield "tasks that are not there", talk.owning(group, "m", epoch, {"0": [7]})
    yield "a subtopology that is not there", talk.owning(group, "m", epoch, {"9": [0]})
    yield "standby tasks that are not there", talk.owning(group, "m", epoch, {}, standby_tasks={"9": [0]})
    yield "another process", talk.streams_beat(group, "m", epoch, process_id="p2", rack_id="r2")
    talk.let_pass()
    yield "another process, later", talk.streams_beat(group, "m", epoch)
    yield "another process, described", talk.streams_group(group)
    yield "joins again", talk.streams_join(group, "m")
    yield "a stranger", talk.streams_beat(group, "n", 3)
    yield "a stranger leaves", talk.streams_beat(group, "n", -1)
    yield "leaves", talk.streams_beat(group, "m", -1)
    yield "leaves again", talk.streams_beat(group, "m", -1)
    yield "is gone", talk.streams_group(group)
    yield "comes back", talk.streams_join(group, "m")[:6]


def two_members(talk: GroupTalk) -> Told:
    """Tasks go from one to the other once the first has given them up."""
    group = "two"

    def shown() -> Any:
        found = talk.streams_group(group)
        return found[2:5], [
            (member[0], member[1], *(sum(len(of) for _, of in kind[0]) for kind in member[5:7])) for member in found[6]
        ]

    def beat(member: str, epoch: int, owned: Any = None) -> Any:
        answer = talk.streams_beat(group, member, epoch) if owned is None else talk.owning(group, member, epoch, owned)
        return answer

    yield "one joins", talk.streams_join(group, "one")
    yield "one has", shown()
    first = beat("one", 2, {"0": [0, 1, 2, 3]})
    yield "one says so", first
    yield "two joins", talk.streams_join(group, "two")
    yield "two waits", shown()
    talk.let_pass()
    told = beat("two", 2)
    yield "two reports", told
    yield "two has a target", shown()
    told = beat("one", 2)
    yield "one is to give up", (told[:6], sum(len(of) for _, of in told[6] or ()))
    kept = dict(told[6] or ())
    yield "one is giving up", shown()
    yield "one still has all", beat("one", 2, {"0": [0, 1, 2, 3]})[:6]
    told = beat("one", 2, kept)
    yield "one has given up", (told[:6], told[6])
    told = beat("two", 3)
    yield "two may have them", (told[:6], sum(len(of) for _, of in told[6] or ()))
    yield "all is well", shown()
    yield "two leaves", beat("two", -1)
    talk.let_pass()
    told = beat("one", 3)
    yield "one gets them back", (told[:6], told[6])
    yield "in the end", shown()


def versions_of_topology(talk: GroupTalk) -> Told:
    """Another topology than the group's."""
    group = "versions"
    yield "epoch 1", talk.streams_join(group, "one", topology=topology(subtopology("0", "log"), epoch=1))[:6]
    yield "epoch 0, the same", talk.streams_join(group, "old", topology=COUNTS)
    yield "epoch 0, another", talk.streams_join(group, "old2", topology=topology(subtopology("0", "other")))[:6]
    other = topology(subtopology("0", "other"), epoch=1)
    yield "epoch 1, another", talk.streams_join(group, "three", topology=other)
    yield "epoch 2, the same", talk.streams_join(group, "four", topology=topology(subtopology("0", "log"), epoch=2))
    yield "epoch 2, another", talk.streams_join(group, "five", topology=topology(subtopology("0", "other"), epoch=2))
    yield "an old one reports", talk.streams_beat(group, "old", _epoch(talk, group, "old"))[:6]
    found = talk.streams_group(group)
    yield "described", (found[5], [(member[0], member[2]) for member in found[6]])
    for member in ("one", "old", "old2"):
        talk.streams_beat(group, member, -1)
    yield "empty", talk.streams_group(group)[2:6]
    yield "when empty, another", talk.streams_join(group, "six", topology=other)[:6]


def source_topics(talk: GroupTalk) -> Told:
    """Source topics that come, grow and go."""
    group = "sources"
    of = topology(subtopology("0", "coming", "log"), subtopology("1", "gone"))
    yield "missing", talk.streams_join(group, "m", topology=of)
    yield "missing, described", talk.streams_group(group)
    of = topology(subtopology("0", "coming"))
    group = "source"
    yield "one is missing", talk.streams_join(group, "m", topology=of)
    talk.create("coming", 2)
    talk.let_pass()
    yield "it has come", talk.streams_beat(group, "m", 2)
    talk.let_pass()
    yield "it has come, described", talk.streams_group(group)
    epoch = _epoch(talk, group, "m")
    talk.grow("coming", 3)
    talk.let_pass()
    yield "it has grown", talk.streams_beat(group, "m", epoch)
    yield "it has grown, described", talk.streams_group(group)
    epoch = _epoch(talk, group, "m")
    talk.delete_topic("coming")
    talk.let_pass()
    yield "it has gone", talk.streams_beat(group, "m", epoch)
    yield "it has gone, described", talk.streams_group(group)


def internal_topics(talk: GroupTalk) -> Told:
    """Topics that the broker makes for a topology."""
    group = "internal"
    of = topology(
        subtopology("0", "log", sinks=["i-r1", "i-r2"], changelogs=[topic_info("i-c0", cleanup_policy="compact")]),
        subtopology(
            "1",
            repartitioned=[topic_info("i-r1", retention_ms="-1"), topic_info("i-r2", 3, 1)],
            changelogs=[topic_info("i-c1", 0, 1)],
        ),
    )
    yield "joins", talk.streams_join(group, "m", topology=of)
    topics = ("i-c0", "i-c1", "i-r1", "i-r2")
    yield "topics", _partitions(talk, *topics)
    for topic in topics:
        yield f"settings of {topic}", _configs(talk, topic)
    talk.let_pass()
    yield "reports", talk.streams_beat(group, "m", 2)
    talk.let_pass()
    yield "reports again", talk.streams_beat(group, "m", _epoch(talk, group, "m"))
    yield "described", talk.streams_group(group)
    talk.delete_topic("i-c1")
    talk.let_pass()
    yield "one has gone", talk.streams_beat(group, "m", _epoch(talk, group, "m"))
    yield "it is made again", _partitions(talk, "i-c1")
    for question, of in (
        ("too many copies", topology(subtopology("0", "log", changelogs=[topic_info("i-c2", 0, 3)]))),
        ("a bad setting", topology(subtopology("0", "log", changelogs=[topic_info("i-c3", cleanup_policy="x")]))),
        ("another count", topology(subtopology("0", "log", changelogs=[topic_info("i-r2")]))),
        (
            "another count of a repartition topic",
            topology(subtopology("0", "log", sinks=["i-c0"], repartitioned=[topic_info("i-c0", 7)])),
        ),
    ):
        group = f"internal {question}"
        yield question, talk.streams_join(group, "m", topology=of)
        talk.let_pass()
        yield f"{question}, reports", talk.streams_beat(group, "m", 2)
        talk.let_pass()
        yield f"{question}, reports again", talk.streams_beat(group, "m", 2)
        yield f"{question}, described", talk.streams_group(group)[2:5]


def copartitioned(talk: GroupTalk) -> Told:
    for question, of in (
        ("alike", subtopology("0", "log", "log4", copartitioned=[((0, 1), ())])),
        ("not alike", subtopology("0", "log", "other", copartitioned=[((0, 1), ())])),
        ("not alike, in two groups", subtopology("0", "log", "other", copartitioned=[((0,), ()), ((1,), ())])),
        (
            "a repartition topic takes the count",
            subtopology("0", "log", sinks=["co-r1"], repartitioned=[topic_info("co-r1")], copartitioned=[((0,), (0,))]),
        ),
        (
            "a repartition topic with another count",
            subtopology(
                "0", "log", sinks=["co-r2"], repartitioned=[topic_info("co-r2", 2)], copartitioned=[((0,), (0,))]
            ),
        ),
        ("a number that is not there", subtopology("0", "log", copartitioned=[((5,), ())])),
    ):
        if question == "alike":
            talk.create("log4", 4)
        group = f"co {question}"
        yield question, talk.streams_join(group, "m", topology=topology(of))
        yield f"{question}, described", talk.streams_group(group)[2:6]


def standbys(talk: GroupTalk) -> Told:
    """A second copy of what has state."""
    group = "standbys"
    talk.configure(group, streams_num_standby_replicas=1)
    of = topology(subtopology("0", "other", changelogs=[topic_info("standbys-c")]))
    talk.streams_join(group, "a", topology=of)
    _partitions(talk, "standbys-c")
    talk.let_pass()

    def shown() -> Any:
        """Count each member's target tasks by kind."""
        return [tuple(sum(len(of) for _, of in kind) for kind in member[6]) for member in talk.streams_group(group)[6]]

    talk.streams_beat(group, "a", _epoch(talk, group, "a"))
    yield "one", shown()
    talk.streams_join(group, "b", topology=of)
    talk.let_pass()
    for member in ("a", "b"):
        talk.streams_beat(group, member, _epoch(talk, group, member))
    yield "two", shown()
    talk.configure(group, streams_num_standby_replicas=0)
    talk.let_pass()
    talk.streams_beat(group, "a", _epoch(talk, group, "a"))
    talk.let_pass()
    talk.streams_beat(group, "a", _epoch(talk, group, "a"))
    yield "without", shown()


def endpoints(talk: GroupTalk) -> Told:
    """The addresses at which a process can be asked for its state."""
    group = "endpoints"
    yield "joins", talk.streams_join(group, "a", user_endpoint=("host", 9))
    epoch = _epoch(talk, group, "a")
    yield "reports in epoch 0", talk.streams_beat(group, "a", epoch, endpoint_information_epoch=0)
    yield "reports in epoch -1", talk.streams_beat(group, "a", epoch, endpoint_information_epoch=-1)
    yield "owns", talk.owning(group, "a", epoch, {"0": [0, 1, 2, 3]}, endpoint_information_epoch=1)
    yield "reports in epoch 1", talk.streams_beat(group, "a", epoch, endpoint_information_epoch=1)
    yield "described", talk.streams_group(group)[6]


def shutdown(talk: GroupTalk) -> Told:
    group = "shutdown"
    talk.streams_join(group, "a")
    epoch = _epoch(talk, group, "a")
    yield "asked for", talk.streams_beat(group, "a", epoch, shutdown_application=True)
    yield "reported", talk.streams_beat(group, "a", epoch)
    yield "to another", talk.streams_join(group, "b")[:6]
    for member in ("a", "b"):
        talk.streams_beat(group, member, -1)
    yield "when empty, joins", talk.streams_join(group, "c")[:6]


def delayed(talk: GroupTalk) -> Told:
    """The first assignment of a group waits for other members."""
    group = "delayed"
    talk.configure(group, streams_initial_rebalance_delay_ms=2_000)
    yield "joins", talk.streams_join(group, "a")
    yield "reports", talk.streams_beat(group, "a", 1)
    yield "described", talk.streams_group(group)
    talk.broker.let_pass(2_500)
    yield "after the delay, described", talk.streams_group(group)[2:5]
    yield "after the delay", talk.streams_beat(group, "a", _epoch(talk, group, "a"))


def sizes(talk: GroupTalk) -> Told:
    for number in range(SIZE + 1):
        yield f"member {number} joins", talk.streams_join("sizes", f"{number}")[:2]
    yield "a member joins again", talk.streams_join("sizes", "0")[:2]


def offsets(talk: GroupTalk) -> Told:
    """Offsets of a streams group, which are a consumer group's."""

    talk.streams_join("offsets", "m")
    epoch = _epoch(talk, "offsets", "m")
    for version in (8, 9):
        for member_id, asked in (("m", epoch), ("m", epoch + 1), ("m", epoch - 1), ("n", epoch), ("", -1)):
            who = ("offsets", member_id, asked)
            answer = talk.commit(*who, "log", version=version)
            yield f"version {version}, {member_id!r} in {asked - epoch} of its epoch", answer
    for member_id, asked in (("m", epoch), ("m", epoch + 5), ("n", 1), (None, -1)):
        found = talk.fetched("offsets", member_id, asked, None)
        yield f"fetched by {member_id!r} in {asked - epoch} of its epoch", found


def kinds(talk: GroupTalk) -> Told:
    """Requests of other kinds to streams groups, and of streams groups to others."""
    talk.streams_join("left", "m")
    talk.streams_beat("left", "m", -1)
    for group_id in ("one", "left"):
        for question, answer in talk.others(group_id):
            yield f"{group_id}: {question}", answer
        yield f"{group_id}: ShareGroupHeartbeat", talk.join(group_id, "m", "log")[:2]
        yield f"{group_id}: offsets of a share group", talk.offsets(group_id)
        yield (
            f"{group_id}: afterwards",
            talk.listed(types_filter=["streams", "classic", "consumer"])[1].count(
                (group_id, "streams", talk.streams_group(group_id)[2], "streams")
            ),
        )
    talk.consumer_join("consumer")
    talk.join("share", "m", "log")
    for group_id in ("consumer", "share"):
        yield f"{group_id}: join", talk.streams_join(group_id, "m")[:2]
        yield f"{group_id}: report", talk.streams_beat(group_id, "m", 1)[:2]
        yield f"{group_id}: leave", talk.streams_beat(group_id, "m", -1)[:2]
        yield f"{group_id}: described", talk.streams_group(group_id)[:3]
    several = {"group_ids": ["share", "left", "gone", ""]}
    yield "several described", talk.ask("StreamsGroupDescribe", 0, f"groups{{group_id {ERROR} group_state}}", **several)
    yield "with operations", talk.streams_group("left", include_authorized_operations=True)[-1]


def ended(talk: GroupTalk) -> Told:
    yield "deleted", talk.delete_each("left", "two", "gone")
    yield "described", talk.streams_group("left")[:3]
    for states in (["NotReady"], ["Assigning"], ["Reconciling"], ["Stable"], ["Empty"]):
        yield f"in {states}", [entry[0] for entry in talk.listed(types_filter=["streams"], states_filter=states)[1]]


_STUMBLES = "Kafka stumbles over such a topology, though it has an error for one that is invalid"
_AT_ONCE = "Kafka creates internal topics after the response, and says with a later one why it could not"
_ITS_OWN_NAME = 'Kafka compares the state with "not_ready", a name that neither its answers nor its tools use'
_TOO_MANY = (
    "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 "
    "broker(s) are registered or some brokers have all their log directories cordoned."
)
_BAD = "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"


def _invalid(text: str) -> tuple[str, object]:
    return _STUMBLES, ("STREAMS_INVALID_TOPOLOGY", text, False, 0, (0, 0, 0), [], None, None, None, (0, None))


def _failed(topic: str, why: str) -> tuple[str, object]:
    detail = f"Internal topics are missing: {topic}; Creation failed: {topic} ({why})."
    return _AT_ONCE, ("NONE", None, True, 2, (5000, 0, 0), [(3, detail)], [], [], [], (0, None))


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "topologies: an epoch below zero": _invalid("Topology epoch must be non-negative."),
    "topologies: the same subtopology twice": _invalid("Subtopology 0 is defined twice."),
    "copartitioned: a number that is not there": _invalid("A copartition group refers to a topic that does not exist."),
    "internal_topics: too many copies": _failed("i-c2", _TOO_MANY),
    "internal_topics: a bad setting": _failed("i-c3", _BAD),
    "ended: in ['NotReady']": (
        _ITS_OWN_NAME,
        [
            "co a repartition topic takes the count",
            "co a repartition topic with another count",
            "co not alike",
            "internal",
            "internal a bad setting",
            "internal another count",
            "internal another count of a repartition topic",
            "internal too many copies",
            "source",
            "sources",
        ],
    ),
}
