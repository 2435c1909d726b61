"""Jobs for clients of all languages over a secured listener: a job in, a line out.

The line is "ok" and what was read, or the protocol's name of the error (else the client's own), a colon and its text.
Java's, Go's and Node's programs (tests/interop) read a job as JSON; the clients in Python are functions here.
"""

import asyncio
import json
import logging
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from oncelog import sync
from oncelog.client import KafkaError
from oncelog.client.options.option_types import SecurityOptions
from oncelog.protocol.errors import ErrorCode
from tests.support.foreign.interop import GO_PROGRAM, NODE_PACKAGES, ROOT, class_path, needs, run
from tests.support.patience import PATIENCE_S
from tests.support.security.secure_clients import AiokafkaToken, KafkaPythonToken, Security

Scene = Literal["produce", "transaction", "consume", "consume by KIP-848", "delegate"]
INTEROP = ROOT / "tests" / "interop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    scene: Scene
    """`delegate`: make a delegation token; its id and its password are what was read."""
    bootstrap: str
    security: Security
    topic: str = ""
    name: str = ""
    """The group, or the transactional id."""
    value: str = ""
    """The value to send."""
    count: int = 0
    """How many to read, read_committed; then they are committed."""
    patience_ms: int = 15_000
    """Time after which a client that tries again and again gives up."""

    @property
    def patience_s(self) -> float:
        return self.patience_ms / 1000


Work = Callable[[Job], str]
_LOGGER = logging.getLogger("librdkafka")


class TooLate(Exception):
    """A client said nothing until the end of its patience."""


def in_go(job: Job) -> str:
    needs(GO_PROGRAM)
    return run([str(GO_PROGRAM), "secured", job.bootstrap, job.name], json.dumps(asdict(job))).strip()


def in_node(job: Job) -> str:
    needs(NODE_PACKAGES)
    command = ["env", f"NODE_PATH={NODE_PACKAGES}", "node", str(INTEROP / "node" / "secured.js")]
    return run(command, json.dumps(asdict(job))).strip()


class InJava:
    """One process for all jobs: it takes a second to start and to compile its source."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, job: Job) -> str:
        if self._process is None:
            command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path()]
            self._process = subprocess.Popen(
                [*command, str(INTEROP / "SecuredClient.java")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=PATIENCE_S)
            self._process = None


def _answered(scenes: dict[str, Callable[[Job], list[bytes]]], job: Job) -> str:
    try:
        return " ".join(["ok", *(value.decode() for value in scenes[job.scene](job))])
    except Exception as error:
        return f"{_name(error)}: {error}".replace("\n", " ")


def _name(error: Exception) -> str:
    match error:
        case KafkaError():
            return error.name
        case confluent_kafka.KafkaException():
            return str(error.args[0].name())
        case _:
            code = getattr(error, "errno", None)
            return ErrorCode(code).name if isinstance(code, int) and code > 0 else type(error).__name__


# --- oncelog ----------------------------------------------------------------------------------------------------------


def _our_options(security: Security) -> SecurityOptions:
    options: Any = {"security_protocol": security.protocol}
    if security.authority_path:
        options["ssl_truststore_location"] = security.authority_path
    if security.mechanism:
        options["sasl_mechanism"] = security.mechanism
    if security.token:
        options["sasl_oauth_token_provider"] = lambda: security.token
    elif security.mechanism:
        options |= {"sasl_username": security.user, "sasl_password": security.password}
        options["sasl_tokenauth"] = security.is_delegated
    made: SecurityOptions = options
    return made


def _our_produce(job: Job) -> list[bytes]:
    with sync.Producer(job.bootstrap, **_our_options(job.security)) as producer:
        producer.send(job.topic, job.value.encode())
    return []


def _our_transaction(job: Job) -> list[bytes]:
    options = _our_options(job.security)
    with sync.Producer(job.bootstrap, transactional_id=job.name, **options) as producer, producer.transaction() as each:
        each.send(job.topic, job.value.encode())
    return []


def _our_consume(job: Job) -> list[bytes]:
    protocol: Any = "consumer" if job.scene == "consume by KIP-848" else "classic"
    values: list[bytes] = []
    with sync.Consumer(
        job.topic,
        bootstrap_servers=job.bootstrap,
        group_id=job.name,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        **_our_options(job.security),
    ) as consumer:
        while len(values) < job.count:
            values += [each.value or b"" for each in consumer.next_batch()]
        consumer.commit_sync()
    return values


def _our_delegate(job: Job) -> list[bytes]:
    with sync.Admin(job.bootstrap, **_our_options(job.security)) as admin:
        token = admin.create_delegation_token()
    return [token.token_id.encode(), token.hmac.encode()]


# --- confluent-kafka (librdkafka) -------------------------------------------------------------------------------------


class _Confluent:
    """Reports its threads' events by callbacks; the first error is the job's."""

    def __init__(self, job: Job, **settings: Any) -> None:
        self.errors: list[confluent_kafka.KafkaError] = []
        self.settings = {
            "bootstrap.servers": job.bootstrap,
            "error_cb": self.errors.append,
            "logger": _LOGGER,
            **job.security.for_librdkafka(),
            **settings,
        }

    def check(self, until_s: float) -> None:
        if self.errors:
            raise confluent_kafka.KafkaException(self.errors[0])
        if time.monotonic() > until_s:
            raise TooLate


def _confluent_sent(told: _Confluent, producer: confluent_kafka.Producer, job: Job) -> None:
    reports: list[confluent_kafka.KafkaError | None] = []
    producer.produce(job.topic, job.value, on_delivery=lambda error, _: reports.append(error))
    until_s = time.monotonic() + job.patience_s
    while not reports:
        producer.poll(0.1)
        if not reports:
            told.check(until_s)
    if reports[0] is not None:
        raise confluent_kafka.KafkaException(reports[0])


def _confluent_produce(job: Job) -> list[bytes]:
    told = _Confluent(job)
    _confluent_sent(told, confluent_kafka.Producer(told.settings), job)
    return []


def _confluent_transaction(job: Job) -> list[bytes]:
    told = _Confluent(job, **{"transactional.id": job.name})
    producer = confluent_kafka.Producer(told.settings)
    producer.init_transactions(job.patience_s)
    producer.begin_transaction()
    _confluent_sent(told, producer, job)
    producer.commit_transaction(job.patience_s)
    return []


def _confluent_consume(job: Job) -> list[bytes]:
    protocol = "consumer" if job.scene == "consume by KIP-848" else "classic"
    reading = {"group.id": job.name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    told = _Confluent(job, **reading, **{"enable.auto.commit": False})
    consumer, values = confluent_kafka.Consumer(told.settings), []
    until_s = time.monotonic() + job.patience_s
    try:
        consumer.subscribe([job.topic])
        while len(values) < job.count:
            message = consumer.poll(0.1)
            if message is None:
                told.check(until_s)
            elif message.error():
                raise confluent_kafka.KafkaException(message.error())
            else:
                values.append(bytes(message.value() or b""))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


# --- aiokafka ---------------------------------------------------------------------------------------------------------


def _aiokafka_options(job: Job) -> dict[str, Any]:
    return {"bootstrap_servers": job.bootstrap, **job.security.for_python(AiokafkaToken)}


async def _aiokafka_produce(job: Job) -> list[bytes]:
    async with AIOKafkaProducer(**_aiokafka_options(job), enable_idempotence=True) as producer:
        await producer.send_and_wait(job.topic, job.value.encode())
    return []


async def _aiokafka_transaction(job: Job) -> list[bytes]:
    async with AIOKafkaProducer(**_aiokafka_options(job), transactional_id=job.name) as producer:
        async with producer.transaction():
            await producer.send_and_wait(job.topic, job.value.encode())
    return []


async def _aiokafka_consume(job: Job) -> list[bytes]:
    reading = {"group_id": job.name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with AIOKafkaConsumer(job.topic, **_aiokafka_options(job), **reading, enable_auto_commit=False) as consumer:
        values = [bytes((await consumer.getone()).value) for _ in range(job.count)]
        await consumer.commit()
    return values


def _run(work: Callable[[Job], Any], job: Job) -> list[bytes]:
    async def in_time() -> list[bytes]:
        values: list[bytes] = await asyncio.wait_for(work(job), job.patience_s)
        return values

    return asyncio.run(in_time())


# --- kafka-python -----------------------------------------------------------------------------------------------------


def _kafka_python_options(job: Job) -> dict[str, Any]:
    options = {"bootstrap_servers": job.bootstrap, "bootstrap_timeout_ms": job.patience_ms}
    return {**options, **job.security.for_python(KafkaPythonToken)}


def _kafka_python_produce(job: Job) -> list[bytes]:
    with KafkaProducer(**_kafka_python_options(job), max_block_ms=job.patience_ms) as producer:
        producer.send(job.topic, job.value.encode()).get(job.patience_s)
    return []


def _kafka_python_transaction(job: Job) -> list[bytes]:
    options = {**_kafka_python_options(job), "max_block_ms": job.patience_ms}
    with KafkaProducer(**options, transactional_id=job.name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(job.topic, job.value.encode()).get(job.patience_s)
        producer.commit_transaction()
    return []


def _kafka_python_consume(job: Job) -> list[bytes]:
    reading = {"group_id": job.name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    options = {**_kafka_python_options(job), **reading, "consumer_timeout_ms": job.patience_ms}
    consumer = KafkaConsumer(job.topic, **options, enable_auto_commit=False)
    try:
        values = [bytes(next(consumer).value) for _ in range(job.count)]
        consumer.commit()
    finally:
        consumer.close(autocommit=False)
    return values


def _in_python(produce: Any, transaction: Any, consume: Any, delegate: Any = None) -> Work:
    scenes = {"produce": produce, "transaction": transaction, "consume": consume, "consume by KIP-848": consume}
    return partial(_answered, {**scenes, "delegate": delegate})


oncelog = _in_python(_our_produce, _our_transaction, _our_consume, _our_delegate)
confluent = _in_python(_confluent_produce, _confluent_transaction, _confluent_consume)
aiokafka = _in_python(*(partial(_run, each) for each in (_aiokafka_produce, _aiokafka_transaction, _aiokafka_consume)))
kafka_python = _in_python(_kafka_python_produce, _kafka_python_transaction, _kafka_python_consume)
