"""Hints to names: a slip is one, a likeness is none."""

import os
import subprocess
from pathlib import Path

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.kafka_names import REMOVED, UNNEEDED, is_known_prefix
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.client.values.errors import error_for
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.names import nearest, owner_of
from tests.conformance.kafka_settings import RECORDED_CLIENTS

_PROGRAM = Path(__file__).parents[2] / "conformance" / "KafkaClientSettings.java"


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("num.partitons", ["num.partitions"], ["num.partitions"]),
        ("num.parittions", ["num.partitions"], ["num.partitions"]),
        ("lingerms", ["linger_ms"], ["linger_ms"]),
        ("startingoffset", ["startingOffsets"], ["startingOffsets"]),
        ("topics", ["topic", "group"], ["topic"]),
        ("transaction.max.timeout", ["transaction.max.timeout.ms"], ["transaction.max.timeout.ms"]),
        ("orders", ["order", "ordres", "borders", "payments"], ["borders", "order", "ordres"]),
        ("max.request.size", ["queued.max.requests", "max.request.partition.size.limit"], []),
        ("acks", ["acls", "sasl"], ["acls"]),
        ("log", ["log.dir", "log.dirs"], []),
        ("group.timeout.ms", ["group.max.timeout.ms.of.all"], []),
        ("foo", ["bar"], []),
    ],
)
def test_a_hint_is_a_slip_or_a_last_word_away_and_never_a_likeness(
    name: str, known: list[str], found: list[str]
) -> None:
    assert nearest(name, known, 3) == found


def test_a_setting_of_a_client_is_known_in_both_spellings() -> None:
    assert [owner_of(name) for name in ("linger.ms", "linger_ms", "group.id", "client_id", "num.partitions")] == [
        "a producer",
        "a producer",
        "a consumer",
        "a client",
        "",
    ]


@pytest.mark.kafka
def test_whose_a_setting_is_is_what_kafkas_own_classes_say() -> None:
    if "ONCELOG_KAFKA_LIBS" not in os.environ:
        pytest.skip("needs ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    command = ["java", "-cp", f"{os.environ['ONCELOG_KAFKA_LIBS']}/*", str(_PROGRAM)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    assert said == RECORDED_CLIENTS.read_text(encoding="utf-8")
    owners: dict[str, set[str]] = {}
    for line in said.splitlines():
        owner, name = line.split("\t")
        owners.setdefault(name, set()).add(owner)
    for name, kinds in owners.items():
        if name in (*BROKER_KEYS, *UNNEEDED, *REMOVED, *TOPIC_CONFIGS) or is_known_prefix(name):
            continue
        if name.startswith("internal."):
            continue
        assert owner_of(name) == (f"a {min(kinds)}" if kinds in ({"producer"}, {"consumer"}) else "a client"), name


def test_a_clients_setting_that_was_given_to_a_topic_is_named_as_such() -> None:
    error = error_for(ErrorCode.INVALID_CONFIG, "Unknown topic config name: max.request.size")
    assert "it is a setting of a producer, not of topics" in str(error)
    assert "setting of" not in str(error_for(ErrorCode.INVALID_CONFIG, "Unknown topic config name: retention"))
