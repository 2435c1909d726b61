"""Conversations about settings of client metrics, names with blanks, and a file that Kafka starts with.

Owns: the questions. Does not own: how they are asked (`transcripts.admin_configs_transcript`).
"""

from typing import Any

from tests.clients.asking import Broker, Told
from tests.conformance.transcripts.admin_configs_transcript import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    ConfigTalk,
)
from tests.conformance.transcripts.admin_topics_transcript import TopicTalk, topic

NAME = "subscription"

_METRICS = (
    ("interval.ms", ("1000", "99", "100", "3600000", "3600001", "0", "-1", "soon", "", " 1000 ", "1_000", "+1000")),
    ("interval.ms", ("9223372036854775807",)),
    ("metrics", ("", "*", "a,b", "org.apache.kafka.", " a , b ", "a,,b", ",", "a,a", "\u00e9")),
    (
        "match",
        (
            "",
            "client_id=b69cc35a.*",
            "client_id=b69cc35a.*,client_software_name=python",
            "client_instance_id=.*,client_software_version=1,client_source_address=10.*,client_source_port=.*",
            "client_id=[",
            "client_id=*",
            "client_id=",
            "client_id",
            "=a",
            "client_id=a=b",
            "no_such=a",
            " client_id = a ",
            "client_id=a,client_id=b",
            "client_id=a,,client_id=b",
            "client_id=a{1",
            "client_id=(?!b)a",
            "CLIENT_ID=a",
            ",",
        ),
    ),
    ("no.such.key", ("1", "")),
    ("retention.ms", ("1",)),
    ("interval.ms ", ("1000",)),
    ("", ("1000",)),
)
_OTHER_CHANGES: tuple[tuple[Change, ...], ...] = (
    (),
    (("interval.ms", SET, None),),
    (("interval.ms", DELETE, None),),
    (("interval.ms", APPEND, "5"),),
    (("interval.ms", SUBTRACT, "5"),),
    (("no.such.key", DELETE, None),),
    (("no.such.key", APPEND, "5"),),
    (("metrics", APPEND, "a"),),
    (("metrics", APPEND, ""),),
    (("metrics", APPEND, None),),
    (("metrics", SUBTRACT, "a"),),
    (("match", APPEND, "nonsense"),),
    (("match", APPEND, "client_id=a"),),
    (("metrics", SET, "a"), ("metrics", SET, "b")),
    (("metrics", SET, "a"), ("no.such.key", SET, "b")),
    (("interval.ms", SET, "1"), ("match", SET, "x")),
    (("metrics", SET, "a"), ("interval.ms", SET, "5000"), ("match", SET, "client_id=a")),
)


def client_metrics(broker: Broker) -> Told:
    """Subscriptions: tried, set, shown, listed and deleted. `broker` must be fresh."""
    talk = ConfigTalk(broker)

    def listed(version: int, kinds: list[int]) -> Any:
        shape = "error_code config_resources{resource_type resource_name}"
        return talk.ask("ListConfigResources", version, shape, resource_types=kinds)

    def shown(name: str, key: str, expected: str | None) -> Any:
        return talk.settled(CLIENT_METRICS, name, key, expected)

    for key, values in _METRICS:
        for text in values:
            yield f"tried {key}={text}", talk.tried(CLIENT_METRICS, NAME, (key, SET, text))
            yield f"replaced {key}={text}", talk.replaced(CLIENT_METRICS, NAME, (key, text), validate_only=True)
    for change in _OTHER_CHANGES:
        yield f"tried {change}", talk.tried(CLIENT_METRICS, NAME, *change)
    for name in ("", " ", "a b", "a/b", "\u00e9", "x" * 300):
        asked = f"{name[:12]!r}, {len(name)} long"
        yield f"tried on {asked}", talk.tried(CLIENT_METRICS, name, ("interval.ms", SET, "1000"))
        yield f"replaced on {asked}", talk.replaced(CLIENT_METRICS, name, ("metrics", "a"), validate_only=True)
        yield f"wrong value on {asked}", talk.tried(CLIENT_METRICS, name, ("interval.ms", SET, "1"))
    yield "replaced by a null", talk.replaced(CLIENT_METRICS, NAME, ("metrics", None), validate_only=True)
    yield "replaced by nothing", talk.replaced(CLIENT_METRICS, NAME, validate_only=True)
    yield (
        "replaced twice",
        talk.replaced(CLIENT_METRICS, NAME, ("metrics", "a"), ("metrics", "b"), validate_only=True),
    )
    yield "nothing was changed", talk.described(CLIENT_METRICS, NAME)
    yield "nothing is listed", (listed(0, []), listed(1, [CLIENT_METRICS]))
    yield "set", talk.changed(CLIENT_METRICS, NAME, ("interval.ms", SET, " 7000 "))
    yield "and shown", shown(NAME, "interval.ms", " 7000 ")
    yield "all of it", talk.described(CLIENT_METRICS, NAME)
    yield "without synonyms", talk.described(CLIENT_METRICS, NAME, synonyms=False)
    for version in (1, 2, 3):
        yield f"all of it, version {version}", talk.described(CLIENT_METRICS, NAME, version=version)
    yield "by name", talk.described(CLIENT_METRICS, NAME, ["match", "no.such.key", "interval.ms "])
    yield "listed", (listed(0, []), listed(1, [CLIENT_METRICS]), listed(1, [CLIENT_METRICS, GROUP]))
    yield "appended", talk.changed(CLIENT_METRICS, NAME, ("metrics", APPEND, "a,b"))
    yield "appended, shown", shown(NAME, "metrics", "a,b")
    yield "appended again", talk.changed(CLIENT_METRICS, NAME, ("metrics", APPEND, "b,c"))
    yield "appended again, shown", shown(NAME, "metrics", "a,b,c")
    yield "subtracted", talk.changed(CLIENT_METRICS, NAME, ("metrics", SUBTRACT, "a,c"))
    yield "subtracted, shown", shown(NAME, "metrics", "b")
    yield "subtracted the last", talk.changed(CLIENT_METRICS, NAME, ("metrics", SUBTRACT, "b"))
    yield "subtracted the last, shown", shown(NAME, "metrics", "")
    yield "replaced", talk.replaced(CLIENT_METRICS, NAME, ("match", "client_id=a"))
    yield "replaced, shown", (shown(NAME, "match", "client_id=a"), talk.described(CLIENT_METRICS, NAME))
    yield "replaced by nothing at all", talk.replaced(CLIENT_METRICS, NAME)
    yield "all is as before", (shown(NAME, "match", ""), talk.described(CLIENT_METRICS, NAME))
    yield "and not listed", (listed(0, []), listed(1, [CLIENT_METRICS]))
    yield "set again", talk.changed(CLIENT_METRICS, NAME, ("metrics", SET, "*"))
    yield "set again, shown", shown(NAME, "metrics", "*")
    yield "deleted", talk.changed(CLIENT_METRICS, NAME, ("metrics", DELETE, None))
    yield "deleted, shown", shown(NAME, "metrics", "")
    yield "deleted, listed", (listed(0, []), listed(1, [CLIENT_METRICS]))
    yield "of a blank name", talk.changed(CLIENT_METRICS, "a b", ("metrics", SET, "a"))
    yield "of a blank name, shown", shown("a b", "metrics", "a")
    yield "of a blank name, listed", listed(1, [CLIENT_METRICS])


_BLANKS = ("{} ", " {}", " {} ", "{}\t", "\u00a0{}")
_NAMES = {
    TOPIC: ("blanks", "retention.ms", "5000"),
    BROKER: ("1", "log.retention.ms", "5000"),
    GROUP: ("blanks", "consumer.session.timeout.ms", "50000"),
    CLIENT_METRICS: ("blanks", "interval.ms", "5000"),
}


def blanks(broker: Broker) -> Told:
    """Names of settings with blanks around them and in them, on each kind of resource. `broker` must be fresh."""
    talk = ConfigTalk(broker)
    TopicTalk(broker).created(topic("blanks"))
    for kind, (name, key, text) in _NAMES.items():
        for spelt in (*(each.format(key) for each in _BLANKS), key.replace(".", " "), "two words", " ", ""):
            yield f"tried {spelt!r} on {kind}", talk.tried(kind, name, (spelt, SET, text))
            yield f"replaced {spelt!r} on {kind}", talk.replaced(kind, name, (spelt, text), validate_only=True)
            yield f"deleted {spelt!r} on {kind}", talk.tried(kind, name, (spelt, DELETE, None))
            yield f"asked for {spelt!r} on {kind}", talk.described(kind, name, [spelt])
    both = (("retention.ms", SET, "5000"), ("retention.ms ", SET, "5000"))
    yield "with and without", talk.tried(TOPIC, "blanks", *both)
    for spelt in ("two words", "log.retention.ms ", " num.io.threads"):
        yield f"{spelt!r} is kept", talk.changed(BROKER, "", (spelt, SET, "9"))
        while not talk.described(BROKER, "", [spelt])[2]:
            broker.let_pass(50)
        for name in ("", "1"):
            yield f"{spelt!r} is shown on {name!r}", talk.described(BROKER, name, [spelt])
        yield f"{spelt!r} goes", talk.changed(BROKER, "", (spelt, DELETE, None))


LINES = (
    "no.such.name=1",
    "retention.ms=5",
    "max.poll.records=5",
    "num.partitons=5",
    "two\\ words : 7",
    "message.max.bytes\\ = 7",
    "  num.partitions : 3",
    "log.retention.bytes 1234 ",
    "log.segment.bytes\\\n  = 2000000",
    "log.retention.minutes \\u0035",
    "socket.request.max.bytes\\=5000",
    "offset.metadata.max.bytes=\\u0035\\\n   000",
    "num.io.threads=9",
    "num.network.threads = 2 ",
    "background.threads=11",
    "metrics.sample.window.ms=5000",
    "broker.rack=a rack",
    "super.users=User\\:admin;User:b\\\\c",
)
"""Lines of a file that Kafka starts with."""
ASKED = (
    "no.such.name",
    "retention.ms",
    "max.poll.records",
    "num.partitons",
    "two words",
    "message.max.bytes ",
    "message.max.bytes",
    "num.partitions",
    "log.retention.bytes",
    "log.segment.bytes",
    "log.retention.minutes",
    "socket.request.max.bytes",
    "offset.metadata.max.bytes",
    "num.io.threads",
    "num.network.threads",
    "background.threads",
    "metrics.sample.window.ms",
    "broker.rack",
    "super.users",
)


def file_of_kafka(broker: Broker) -> Told:
    """What a broker shows that was started with `LINES`."""
    talk = ConfigTalk(broker)
    for key in ASKED:
        yield f"shown {key!r}", talk.described(BROKER, "1", [key])


OTHER_PATTERNS: dict[str, tuple[str, object]] = {
    f"{how} match={pattern}": (why, answer)
    for how in ("tried", "replaced")
    for pattern, why, answer in (
        ("client_id=a{1", "RE2 takes a brace that nothing closes as itself", ("NONE", None)),
        (
            "client_id=(?!b)a",
            "patterns are RE2's, which has no look-around",
            ("INVALID_CONFIG", "Illegal client matching pattern: client_id=(?!b)a"),
        ),
    )
}

OTHER_IN_THE_FILE: dict[str, tuple[str, object]] = {
    "shown 'log.retention.bytes'": (
        "values are kept without the blanks at their ends",
        (
            "NONE",
            "",
            [
                (
                    "log.retention.bytes",
                    "1234",
                    False,
                    4,
                    False,
                    5,
                    [("log.retention.bytes", "1234", 4), ("log.retention.bytes", "-1", 5)],
                )
            ],
        ),
    ),
    "shown 'num.network.threads'": (
        "values are kept without the blanks at their ends",
        (
            "NONE",
            "",
            [
                (
                    "num.network.threads",
                    "2",
                    False,
                    4,
                    False,
                    3,
                    [("num.network.threads", "2", 4), ("num.network.threads", "3", 5)],
                )
            ],
        ),
    ),
    "shown 'super.users'": (
        "in Kafka it is a setting of a plug-in, whose values may be secret",
        (
            "NONE",
            "",
            [
                (
                    "super.users",
                    "User:admin;User:b\\c",
                    True,
                    4,
                    False,
                    2,
                    [("super.users", "User:admin;User:b\\c", 4), ("super.users", "", 5)],
                )
            ],
        ),
    ),
}
