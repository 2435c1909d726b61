"""A conversation about settings of single listeners, which any Kafka-compatible broker can be asked to have: what
DescribeConfigs shows of those it was started with, and of those that are set while it runs.

Owns: the questions, and the settings that the broker must be started with.
"""

from typing import Any

from tests.clients.asking import Broker, Told
from tests.conformance.transcripts.admin_configs_transcript import BROKER, DELETE, SET, ConfigTalk

SETTINGS = (
    "listener.name.plaintext.max.connections=100",
    "listener.name.plaintext.max.connection.creation.rate=200",
    "listener.name.plaintext.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
    "listener.name.plaintext.scram-sha-256.connections.max.reauth.ms=1500",
    "listener.name.plaintext.connections.max.reauth.ms=2500",
    "listener.name.plaintext.ssl.client.auth=required",
    "listener.name.elsewhere.ssl.keystore.password=secret",
    "listener.name.elsewhere.ssl.keystore.location=/nowhere.pem",
    "ssl.truststore.password=secret",
)
DIFFERENCES: dict[str, tuple[str, object]] = {}
_CHANGES = (
    ("listener.name.plaintext.max.connections", "7"),
    ("listener.name.elsewhere.ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
    ("listener.name.elsewhere.ssl.truststore.password", "secret"),
    (
        "listener.name.elsewhere.scram-sha-512.sasl.jaas.config",
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    ),
    ("listener.name.elsewhere.no.such.key", "u"),
    ("no.such.key", "u"),
)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = ConfigTalk(broker)
    for entry in _shown(talk, "1"):
        yield f"at the start: {entry[0]}", entry
    yield "all at the start", _shown(talk, "")
    yield "two by their names", talk.described(BROKER, "1", [name.partition("=")[0] for name in SETTINGS[:3]])
    yield "a version without types", talk.described(BROKER, "1", [SETTINGS[5].partition("=")[0]], version=1)
    for key, value in _CHANGES:
        yield f"set {key}", talk.changed(BROKER, "1", (key, SET, value))
    key = "listener.name.plaintext.max.connections"
    yield "set for all", talk.changed(BROKER, "", (key, SET, "9"))
    while not talk.described(BROKER, "", [key])[2]:
        broker.let_pass(50)
    for entry in _shown(talk, "1"):
        yield f"after changes: {entry[0]}", entry
    yield "all after changes", _shown(talk, "")
    yield "deleted", talk.changed(BROKER, "1", (key, DELETE, None), ("no.such.key", DELETE, None))
    while any(entry[0] == "no.such.key" for entry in _shown(talk, "1")):
        broker.let_pass(50)
    yield "after that", _shown(talk, "1")


def _shown(talk: ConfigTalk, name: str) -> list[Any]:
    entries = talk.described(BROKER, name)[2]
    return [entry for entry in entries if entry[0].startswith("listener.name.") or entry[0] == "no.such.key"]
