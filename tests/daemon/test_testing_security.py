"""`oncelog.testing.Broker(security=...)`: certificates, a user and the settings of each client in one call."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from oncelog import AuthenticationFailed, ConfigError
from oncelog.installing import how_to_install
from oncelog.sync import Admin, Producer
from oncelog.testing import Broker
from oncelog.testing.lives import ProcessLife
from oncelog.testing.secured import Security
from tests.support.patience import PATIENCE_S

BOTH: Security = "SASL_SSL/SCRAM-SHA-512"


@pytest.mark.parametrize("security", get_args(Security))
def test_a_client_gets_in_with_its_settings_and_with_nothing_less(security: Security) -> None:
    with Broker(security=security) as broker:
        settings: Any = broker.client_settings()
        with Producer(**settings) as producer:
            producer.send("orders", b"42")
        assert [each.value for each in broker.records("orders")] == [b"42"]
        with pytest.raises(ConfigError, match=f"speaks {security.partition('/')[0]}"), Admin(broker.bootstrap_servers):
            pass


def test_a_wrong_password_is_refused_and_the_right_one_holds_over_a_crash_and_a_restart() -> None:
    with Broker(security=BOTH) as broker:
        settings: Any = broker.client_settings()
        for _ in range(2):
            with pytest.raises(AuthenticationFailed), Admin(**{**settings, "sasl_password": "wrong"}):
                pass
            with Admin(**settings) as admin:
                assert admin.list_topics() == []
            broker.crash()
            broker.restart()


def test_a_process_of_its_own_is_as_secure() -> None:
    with Broker(security=BOTH, process=True) as broker:
        settings: Any = broker.client_settings()
        with Producer(**settings) as producer:
            producer.send("orders", b"42")
        assert [each.value for each in broker.records("orders")] == [b"42"]


@pytest.mark.parametrize("process", [False, True])
def test_no_other_client_gets_in_where_the_broker_object_asks(process: bool) -> None:
    """Not even with the login of the test's clients, and no password is among the arguments of a process."""
    with Broker(security="SASL_PLAINTEXT/PLAIN", process=process) as broker:
        life = broker._running()
        own: Any = {**broker.client_settings(), "bootstrap_servers": life.addresses[1]}
        with pytest.raises(AuthenticationFailed), Admin(**own):
            pass
        with pytest.raises(ConfigError, match="speaks SASL_PLAINTEXT"), Admin(life.addresses[1]):
            pass
        if isinstance(life, ProcessLife):
            arguments = Path(f"/proc/{life._process.pid}/cmdline").read_text()
            assert "oncelog.broker" in arguments and "LoginModule" not in arguments
            assert own["sasl_password"] not in arguments and str(life._token) not in arguments


def test_under_an_authorizer_the_object_sees_all_and_its_clients_what_they_may() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config: Any = {"authorizer.class.name": authorizer, "super.users": "User:root"}
    with Broker(security="SASL_PLAINTEXT/SCRAM-SHA-256", config=config) as broker:
        broker.produce("orders", b"42")
        assert [each.value for each in broker.records("orders")] == [b"42"]
        with Admin(**broker.client_settings()) as admin:
            assert admin.list_topics() == []


def test_other_clients_get_in_with_the_settings_by_their_names() -> None:
    with Broker(security=BOTH) as broker:
        confluent = ConfluentProducer(broker.client_settings("confluent-kafka"))
        confluent.produce("orders", b"confluent-kafka")
        assert confluent.flush(PATIENCE_S) == 0
        with KafkaProducer(**broker.client_settings("kafka-python")) as kafka_python:
            kafka_python.send("orders", b"kafka-python").get(20)

        async def send() -> None:
            async with AIOKafkaProducer(**broker.client_settings("aiokafka")) as producer:
                await producer.send_and_wait("orders", b"aiokafka")

        asyncio.run(send())
        values = [each.value for each in broker.records("orders")]
        assert values == [b"confluent-kafka", b"kafka-python", b"aiokafka"]


def test_without_security_the_settings_are_the_address() -> None:
    with Broker() as broker:
        assert broker.client_settings() == {"bootstrap_servers": broker.bootstrap_servers}
        assert broker.client_settings("confluent-kafka") == {"bootstrap.servers": broker.bootstrap_servers}


def test_what_is_no_security_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'SASL_SSL/SCRAM-SHA-512'"):
        Broker(security="SASL_SSL")  # type: ignore[arg-type]


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(RuntimeError, match=re.escape(how_to_install("testing"))):
        Broker(security="SSL")
    Broker(security="SASL_PLAINTEXT/PLAIN")
