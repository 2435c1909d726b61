"""Our serializers with a schema registry as people run it: Apicurio's, by Confluent's REST."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.schemas import (
    Reference,
    RegistryError,
    Schema,
    SchemaDeserializer,
    SchemaNotFound,
    SchemaRegistry,
    SchemaSerializer,
)
from oncelog.testing import Broker
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.schemas.avro_pairs import NOT_READ, READ
from tests.support.schemas.registered import FULL, JSON_ORDER, LATER, ORDER, PROTO
from tools.interop import PLACE

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    programs = [*(PLACE / "apicurio").glob("*-runner.jar")]
    if not programs:
        pytest.skip("Apicurio Registry is not here: make interop fetches it")
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("apicurio") / "log"
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", str(programs[0])]
    environment = {**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"}
    with log.open("w") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=log.parent)
    found = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        _await(found, running, log)
        yield found
    finally:
        running.kill()
        running.wait()


def _await(url: str, running: "subprocess.Popen[bytes]", log: Path) -> None:
    registry = SchemaRegistry(url, timeout_s=PATIENCE_S)  # asks again until it answers
    with pytest.raises(SchemaNotFound):
        registry.version("nothing")
    assert running.poll() is None, log.read_text()[-2000:]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema(ORDER), {"id": 1, "cents": None}),
        (Schema(json.dumps(JSON_ORDER), "JSON"), {"id": 1, "tags": ["a"]}),
        (Schema(PROTO, "PROTOBUF"), FULL),
    ],
    ids=("AVRO", "JSON", "PROTOBUF"),
)
def test_what_a_serializer_writes_a_deserializer_reads_that_knows_the_registry_alone(
    url: str, schema: Schema, value: dict[str, object]
) -> None:
    topic = schema.type
    registry = SchemaRegistry(url)
    data = SchemaSerializer(registry, schema).serialize(topic, [], value)
    assert SchemaDeserializer(SchemaRegistry(url)).deserialize(topic, (), data) == value
    assert SchemaRegistry(url).lookup(f"{topic}-value", schema) == registry.version(f"{topic}-value").id


def test_versions_references_and_refusals(url: str) -> None:
    registry = SchemaRegistry(url)
    for text in (ORDER, LATER):
        registry.register("versions-value", Schema(text))
    old = SchemaSerializer(registry, ORDER).serialize("versions", [], {"id": 1})
    assert SchemaDeserializer(registry, LATER).deserialize("versions", (), old)["state"] == "new"
    registry.register(
        "money", Schema('{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}')
    )
    line = '{"type": "record", "name": "Line", "fields": [{"name": "price", "type": "Money"}]}'
    schema = Schema(line, references=(Reference("Money", "money", 1),))
    data = SchemaSerializer(registry, schema).serialize("lines", [], {"price": {"cents": 3}})
    assert SchemaDeserializer(SchemaRegistry(url)).deserialize("lines", (), data) == {"price": {"cents": 3}}
    with pytest.raises(SchemaNotFound):
        registry.schema(999_999)
    _send("PUT", f"{url}/config/versions-value", {"compatibility": "BACKWARD"})
    with pytest.raises(RegistryError) as refused:
        registry.register("versions-value", Schema(ORDER.replace('"id"', '"other"')))
    assert refused.value.status == 409


def test_the_registry_of_the_fixture_finds_compatible_what_theirs_does(url: str) -> None:
    pairs = [(name, *pair[:2]) for name, pair in (*READ.items(), *NOT_READ.items())]
    with Broker(schema_registry=True) as broker:
        theirs, ours = (
            {name: _can_replace(each, f"pair-{number}", new, old) for number, (name, new, old) in enumerate(pairs)}
            for each in (url, broker.schema_registry_url)
        )
    assert ours == theirs


def _can_replace(url: str, subject: str, new: object, old: object) -> bool:
    SchemaRegistry(url).register(subject, Schema(json.dumps(old)))
    _send("PUT", f"{url}/config/{subject}", {"compatibility": "BACKWARD"})
    found = _send("POST", f"{url}/compatibility/subjects/{subject}/versions/latest", {"schema": json.dumps(new)})
    return bool(found["is_compatible"])


def _send(method: str, address: str, body: object) -> dict[str, object]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        found: dict[str, object] = json.load(answer)
        return found
