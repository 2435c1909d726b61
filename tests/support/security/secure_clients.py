"""Three real clients write a record and read it back over a secure listener; each is configured as its users do it."""

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from tests.support.patience import PATIENCE_MS, PATIENCE_S


@dataclass(frozen=True)
class Security:
    """A client's credentials for a listener."""

    protocol: str
    authority_path: str = ""
    certificate_path: str = ""
    """Key and chain in one file; empty: the client shows none."""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    """The token for OAUTHBEARER."""
    is_delegated: bool = False
    """User and password are those of a delegation token."""

    def context(self) -> ssl.SSLContext | None:
        if not self.authority_path:
            return None
        made = ssl.create_default_context(cafile=self.authority_path)
        if self.certificate_path:
            made.load_cert_chain(self.certificate_path)
        return made

    def for_python(self, provider: type) -> dict[str, Any]:
        """The keyword arguments of aiokafka and kafka-python; `provider` is what they take tokens from."""
        options: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.context()}
        if self.token:
            return {**options, "sasl_mechanism": self.mechanism, "sasl_oauth_token_provider": provider(self.token)}
        if self.mechanism:
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return options

    def for_librdkafka(self) -> dict[str, Any]:
        options: dict[str, Any] = {"security.protocol": self.protocol}
        if self.authority_path:
            options["ssl.ca.location"] = self.authority_path
        if self.certificate_path:
            options |= {"ssl.certificate.location": self.certificate_path, "ssl.key.location": self.certificate_path}
        if self.token:
            expires_s = time.time() + 3_600
            return {**options, "sasl.mechanism": self.mechanism, "oauth_cb": lambda _: (self.token, expires_s)}
        if self.mechanism:
            options |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        return options


class AiokafkaToken(AiokafkaTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class KafkaPythonToken(KafkaPythonTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def aiokafka_round_trip(bootstrap: str, security: Security, value: bytes) -> bytes:
    async def run() -> bytes:
        topic, options = _topic(), {"bootstrap_servers": bootstrap, **security.for_python(AiokafkaToken)}
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **options) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value)

    return asyncio.run(run())


def confluent_round_trip(bootstrap: str, security: Security, value: bytes) -> bytes:
    topic, options = _topic(), {"bootstrap.servers": bootstrap, **security.for_librdkafka()}
    producer = Producer({**options, "linger.ms": 0})
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([Partition(topic, 0, 0)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None
        return bytes(message.value())
    finally:
        consumer.close()


def kafka_python_round_trip(bootstrap: str, security: Security, value: bytes) -> bytes:
    topic, options = _topic(), {"bootstrap_servers": bootstrap, **security.for_python(KafkaPythonToken)}
    producer = KafkaProducer(**options)
    try:
        producer.send(topic, value).get(PATIENCE_S)
    finally:
        producer.close()
    consumer = KafkaConsumer(consumer_timeout_ms=PATIENCE_MS, auto_offset_reset="earliest", **options)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return bytes(next(consumer).value)
    finally:
        consumer.close(autocommit=False)


ROUND_TRIPS: dict[str, Callable[[str, Security, bytes], bytes]] = {
    "aiokafka": aiokafka_round_trip,
    "confluent-kafka": confluent_round_trip,
    "kafka-python": kafka_python_round_trip,
}


def _topic() -> str:
    return f"topic-{uuid4().hex[:8]}"
