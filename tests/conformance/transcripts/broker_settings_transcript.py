"""Every setting of a broker that DescribeConfigs shows, one question each; and `min.insync.replicas`, which Kafka sets.

Owns: which part of an entry counts: all of it, and whether there is documentation. What names the machine (addresses,
directories) counts without its value.
"""

from typing import Any

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.descriptions import INTERNAL
from oncelog.broker.config.kafka_names import UNNEEDED_KEYS
from tests.clients.asking import Broker, Told
from tests.conformance.kafka_settings import kafka_settings
from tests.conformance.transcripts.admin_configs_transcript import DELETE, SET, ConfigTalk
from tests.conformance.transcripts.admin_topics_transcript import topic
from tools import kafka_facts

TOPIC, BROKER = 2, 4
ELR = "min.insync.replicas"
THREADS = "num.io.threads"
SETTINGS = (
    "node.id=1",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=5",
    "transaction.state.log.num.partitions=5",
)
"""The settings that Kafka is started with and that have a meaning here."""
_OF_THE_MACHINE = frozenset(
    (
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
    )
)
_ABSENT = "not shown"


def conversation(broker: Broker) -> Told:
    talk = ConfigTalk(broker)
    shown = _described(talk, BROKER, "1")
    for name in sorted(kafka_settings("broker")):
        yield name, shown.get(name, _ABSENT)
    talk.created(topic("new"))
    yield f"{ELR} of a new topic", _described(talk, TOPIC, "new")[ELR]
    yield "what is set for all brokers", _described(talk, BROKER, "")
    for name in ("", "1"):
        yield f"{ELR} is deleted on {name!r}", talk.tried(BROKER, name, (ELR, DELETE, None))
        yield f"{ELR} is set on {name!r}", talk.tried(BROKER, name, (ELR, SET, "1"))
    yield "it is set for the topic", talk.changed(TOPIC, "new", (ELR, SET, "1"))
    while len(_described(talk, TOPIC, "new")[ELR][5]) < 3:
        broker.let_pass(50)
    yield "and shown there", _described(talk, TOPIC, "new")[ELR]
    yield "what has no effect here is set", talk.changed(BROKER, "", (THREADS, SET, "9"))
    while THREADS not in _described(talk, BROKER, ""):
        broker.let_pass(50)
    for name in ("", "1"):
        yield f"and shown on {name!r}", _described(talk, BROKER, name)[THREADS]


def _described(talk: ConfigTalk, kind: int, name: str) -> dict[str, Any]:
    asked = {"resources": [(kind, name, None)], "include_synonyms": True, "include_documentation": True}
    entry = "name value read_only config_source is_sensitive config_type synonyms(name value source) documentation:bool"
    shown = {}
    for key, *values in talk.ask("DescribeConfigs", 4, f"results.0.configs({entry})", **asked):
        if key in _OF_THE_MACHINE:
            values[0], values[2], values[5] = None, None, []
        shown[key] = tuple(values)
    return shown


def _default(name: str, value: str | None, *, read_only: bool = True) -> Any:
    key = BROKER_KEYS.get(name) or UNNEEDED_KEYS[name]
    return value, read_only, 5, False, key.type.value, [] if value is None else [(name, value, 5)], True


_TRUE_HERE = {
    "metric.reporters": "no Java class is loaded",
    "offsets.topic.replication.factor": "there is one replica, whatever is asked for",
    "process.roles": "nothing has to be given",
    "share.coordinator.state.topic.min.isr": "there is one replica",
    "share.coordinator.state.topic.replication.factor": "there is one replica",
    "transaction.state.log.min.isr": "there is one replica, whatever is asked for",
    "transaction.state.log.replication.factor": "there is one replica, whatever is asked for",
    "config.providers": "no Java class is loaded, so that a change is refused",
    "cordoned.log.dirs": "there is one directory, so that a change is refused",
    "principal.builder.class": "no Java class is loaded, so that a change is refused",
}

_LISTENS = "what is listened on does not change while this broker runs"
_ZERO = (("0", 4), ("0", 5))

DIFFERENCES: dict[str, tuple[str, object]] = {
    "group.initial.rebalance.delay.ms": (
        kafka_facts.OTHER_DEFAULTS["group.initial.rebalance.delay.ms"][1],
        ("0", True, 4, False, 3, [("group.initial.rebalance.delay.ms", each, source) for each, source in _ZERO], True),
    ),
    "listener.security.protocol.map": (_LISTENS, (None, True, None, False, 2, [], True)),
    "listeners": (_LISTENS, (None, True, None, False, 7, [], True)),
    "node.id": ("there is a default", ("1", True, 4, False, 3, [("node.id", "1", 4), ("node.id", "1", 5)], True)),
    **{name: (why, _default(name, UNNEEDED_KEYS[name].default)) for name, why in _TRUE_HERE.items()},
    **{
        name: (why, _default(name, BROKER_KEYS[name].default))
        for name, (_, why) in kafka_facts.OTHER_DEFAULTS.items()
        if name not in (*_OF_THE_MACHINE, *INTERNAL, "node.id", "group.initial.rebalance.delay.ms")
    },
}
