"""Every setting that has an effect here is Kafka's, with its type; where the default differs, the page says so."""

import os

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigKey
from oncelog.broker.config.kafka_names import UNNEEDED, UNNEEDED_KEYS
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from tests.conformance.kafka_settings import RECORDED, asked, kafka_settings
from tools import kafka_facts

OWN = "oncelog."
NOT_IN_THE_CLASS = {"cluster.id", "super.users", "allow.everyone.if.no.acl.found"}
"""Kafka takes the first when it formats a directory; the others are its authorizer's."""

BOUNDED_OTHERWISE = {
    "authorizer.class.name": "no other class can be loaded",
    "broker.id": "Kafka checks it once it has the whole file",
    "group.consumer.assignors": "no other class can be loaded",
    "group.share.assignors": "no other class can be loaded",
    "log.cleaner.dedupe.buffer.size": "Kafka checks it for each thread of its cleaner",
    "socket.receive.buffer.bytes": "Kafka's sockets refuse what is below",
    "socket.send.buffer.bytes": "Kafka's sockets refuse what is below",
    "ssl.enabled.protocols": "OpenSSL has no other here",
}
"""Settings whose range or choices are not those of Kafka's table, and why."""
_NOT_BOUNDS = ("non-empty list", "non-empty string")


def test_names_and_types_are_kafkas_and_no_name_of_kafka_is_unknown() -> None:
    kafkas = kafka_settings("broker")
    ours = {name: key.type.name for name, key in BROKER_KEYS.items() if not name.startswith(OWN)}
    assert ours.keys() - kafkas.keys() == NOT_IN_THE_CLASS
    assert {name: kafkas[name].type for name in ours.keys() - NOT_IN_THE_CLASS} == {
        name: kind for name, kind in ours.items() if name not in NOT_IN_THE_CLASS
    }
    assert kafkas.keys() - ours.keys() <= UNNEEDED


def test_every_default_is_kafkas_or_on_the_page_with_its_reason() -> None:
    kafkas = kafka_settings("broker")
    differing = {
        name
        for name, key in BROKER_KEYS.items()
        if name in kafkas and (kafkas[name].is_required or kafkas[name].default != key.default)
    }
    assert differing == kafka_facts.OTHER_DEFAULTS.keys()
    for name in differing:
        setting = kafkas[name]
        assert kafka_facts.OTHER_DEFAULTS[name][0] == ("none, required" if setting.is_required else setting.default)


def test_every_value_is_bounded_as_kafka_bounds_it() -> None:
    """A setting takes the range or the choices of Kafka's, whether it has an effect here or not."""
    keys = {**UNNEEDED_KEYS, **BROKER_KEYS}
    kafkas = {name: each.allowed for name, each in kafka_settings("broker").items() if each.allowed not in _NOT_BOUNDS}
    differing = {name for name in kafkas if _allowed(keys[name]) != kafkas[name]}
    assert differing == BOUNDED_OTHERWISE.keys()


def _allowed(key: ConfigKey) -> str:
    """Return what a key accepts as Kafka's validators write it."""
    if key.choices:
        listed = f"[{', '.join(key.choices)}]"
        return f"(case insensitive) {listed}" if key.any_case else listed
    if key.minimum is None:
        return ""
    highest = "" if key.maximum is None else f",{key.maximum}"
    otherwise = "" if key.exception is None else f" or {key.exception}"
    return f"[{key.minimum},...{highest}]{otherwise}"


def test_every_setting_of_a_topic_is_kafkas_with_its_type_and_default() -> None:
    ours = {name: (item.key.type.name, item.key.default) for name, item in TOPIC_CONFIGS.items()}
    kafkas = {name: (setting.type, setting.default) for name, setting in kafka_settings("topic").items()}
    assert ours == {name: kafkas[name] for name in ours}
    assert kafkas.keys() - ours.keys() <= kafka_facts.INTERNAL_TOPIC_SETTINGS


@pytest.mark.kafka
def test_kafka_still_says_what_was_written_down() -> None:
    if "ONCELOG_KAFKA_LIBS" not in os.environ:
        pytest.skip("needs ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    assert asked() == RECORDED.read_text(encoding="utf-8")
