"""The sink as a user who has the rights that docs/spark/spark-options.md names, and no other; no Spark is started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog import Acl, AclFilter, Admin, KafkaError, NewTopic
from oncelog.pipeline.sink.marker import MARKER_TOPIC
from oncelog.pipeline.sink.publish import SinkSettings, publish
from tests.support.kafka.server import free_ports
from tests.support.processes.daemon import Daemon
from tests.support.spark.sink_batches import OUTPUTS, group_of, outputs_of, wanted

PASSWORD = "a password"
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_spark="{PASSWORD}" user_ops="{PASSWORD}";'
)
RIGHTS = [
    *(Acl("User:spark", right, "TOPIC", MARKER_TOPIC) for right in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")),
    *(Acl("User:spark", "WRITE", "TOPIC", f"p-{name}") for name in OUTPUTS),
    Acl("User:spark", "WRITE", "TRANSACTIONAL_ID", "spark-sink-", "PREFIXED"),
    Acl("User:spark", "READ", "GROUP", "lag-p-"),
    Acl("User:spark", "READ", "TOPIC", f"p-{OUTPUTS[0]}"),
]
"""CREATE comes first: later the topic of markers exists."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (port,) = free_ports(1)
    running = Daemon(
        tmp_path / "data",
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={_JAAS}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ops",
    )
    yield running
    running.stop()


def login(user: str) -> Any:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


async def test_the_sink_needs_each_of_its_rights_and_no_other(daemon: Daemon) -> None:
    settings = SinkSettings(daemon.bootstrap, "spark-sink-query", login("spark"))
    async with Admin(daemon.bootstrap, **login("ops")) as admin:
        await admin.create_topics(*(NewTopic(f"p-{name}", partition_count=3) for name in OUTPUTS))
        for right in RIGHTS:
            await admin.create_acls(*(each for each in RIGHTS if each != right))
            with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
                await publish(settings, wanted(0), outputs_of(0, "p-"), group_offsets=group_of(0, "p-"))
            await admin.delete_acls(AclFilter())
        await admin.create_acls(*RIGHTS)
    assert (await publish(settings, wanted(0), outputs_of(0, "p-"), group_offsets=group_of(0, "p-"))).published
    assert not (await publish(settings, wanted(0), outputs_of(0, "p-"), group_offsets=group_of(0, "p-"))).published
