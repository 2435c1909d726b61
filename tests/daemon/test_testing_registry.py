"""The schema registry of the fixture: clients' serializers use it unchanged, and what it has outlives its broker."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from oncelog import schemas
from oncelog.sync import Producer
from oncelog.testing import Broker
from tests.support.schemas.registered import FULL, PROTO

KINDS: dict[str, dict[str, Any]] = {"memory": {}, "disk": {"storage": "disk"}, "process": {"process": True}}
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
OTHER = ORDER.replace('"id"', '"number"')
LATER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "cents", "type": "int", "default": 0}],
    }
)
JSON_ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def client(broker: Broker) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": broker.schema_registry_url})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_confluents_serializer_is_read_by_another_client_after_a_crash(kind: str) -> None:
    with Broker(schema_registry=True, **KINDS[kind]) as broker:
        url = broker.schema_registry_url
        data = AvroSerializer(client(broker), ORDER)({"id": 7}, value_of("orders"))
        broker.produce("orders", data)
        broker.crash()
        broker.restart()
        assert broker.schema_registry_url == url
        (record,) = broker.records("orders")
        assert AvroDeserializer(client(broker))(record.value, value_of("orders")) == {"id": 7}
        ours = schemas.SchemaDeserializer(schemas.SchemaRegistry(url))
        assert ours.deserialize("orders", (), record.value or b"") == {"id": 7}


def test_json_schema_and_protobuf_are_kept_by_their_ids() -> None:
    with Broker(schema_registry=True) as broker:
        data = JSONSerializer(JSON_ORDER, client(broker))({"id": 7}, value_of("orders"))
        assert JSONDeserializer(JSON_ORDER)(data, value_of("orders")) == {"id": 7}
        registry = schemas.SchemaRegistry(broker.schema_registry_url)
        written = schemas.SchemaSerializer(registry, schemas.Schema(PROTO, "PROTOBUF")).serialize("lines", [], FULL)
        again = schemas.SchemaRegistry(broker.schema_registry_url)
        assert schemas.SchemaDeserializer(again).deserialize("lines", (), written) == FULL
        assert sorted(client(broker).get_subjects()) == ["lines-value", "orders-value"]


def test_a_version_that_cannot_read_the_one_before_is_refused_until_the_level_is_none() -> None:
    with Broker(schema_registry=True) as broker:
        registry = client(broker)
        first = registry.register_schema("orders-value", Schema(ORDER, "AVRO"))
        assert (
            registry.register_schema("orders-value", Schema(json.dumps(json.loads(ORDER), indent=1), "AVRO")) == first
        )
        with pytest.raises(SchemaRegistryError, match="number is new and has no default") as refused:
            registry.register_schema("orders-value", Schema(OTHER, "AVRO"))
        assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
        assert registry.register_schema("orders-value", Schema(LATER, "AVRO")) == first + 1
        assert not registry.test_compatibility("orders-value", Schema(OTHER, "AVRO"))
        assert registry.get_compatibility() == "BACKWARD"
        registry.set_compatibility("orders-value", "NONE")
        assert registry.register_schema("orders-value", Schema(OTHER, "AVRO")) == first + 2
        assert registry.get_versions("orders-value") == [1, 2, 3]
        assert client(broker).register_schema("payments-value", Schema(ORDER, "AVRO")) == first, "one id everywhere"


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        ("BACKWARD", [False, True, False]),
        ("FORWARD", [True, False, False]),
        ("FULL", [True, True, False]),
        ("BACKWARD_TRANSITIVE", [False, True, True]),
        ("NONE", [False, False, False]),
    ],
)
def test_each_level_asks_in_its_direction(level: str, refused: list[bool]) -> None:
    """Of: a field fewer, a field without a default, and one that only the version before the last lacks."""

    def text(*fields: str) -> str:
        kinds = {"a": {"name": "a", "type": "int"}, "b": {"name": "b", "type": "int"}}
        return json.dumps({"type": "record", "name": "R", "fields": [kinds[each] for each in fields]})

    with Broker(schema_registry=True) as broker:
        registry = client(broker)
        registry.set_compatibility("r", "NONE")
        registry.register_schema("r", Schema(text("a"), "AVRO"))
        registry.register_schema("r", Schema(text("a", "b"), "AVRO"))
        registry.set_compatibility("r", level)
        asked = ((text("a"), "2"), (text("a", "b"), "1"))
        found = [not registry.test_compatibility("r", Schema(each, "AVRO"), number) for each, number in asked]
        last = json.dumps({**json.loads(text("a", "b")), "doc": "the same, said again"})
        try:
            registry.register_schema("r", Schema(last, "AVRO"))
            found.append(False)
        except SchemaRegistryError:
            found.append(True)
        assert found == refused


def test_a_schema_may_refer_to_another_one() -> None:
    with Broker(schema_registry=True) as broker:
        registry = client(broker)
        registry.register_schema("order", Schema(ORDER, "AVRO"))
        line = json.dumps({"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]})
        schema = Schema(line, "AVRO", [SchemaReference("Order", "order", 1)])
        data = AvroSerializer(registry, schema)({"order": {"id": 7}}, value_of("lines"))
        assert AvroDeserializer(client(broker))(data, value_of("lines")) == {"order": {"id": 7}}


def test_a_subject_that_is_deleted_is_gone_and_its_ids_are_not() -> None:
    with Broker(schema_registry=True) as broker:
        registry = client(broker)
        first = registry.register_schema("orders-value", Schema(ORDER, "AVRO"))
        assert registry.delete_subject("orders-value") == [1]
        broker.restart()
        assert client(broker).get_subjects() == []
        assert client(broker).get_schema(first).schema_str == json.dumps(json.loads(ORDER), separators=(",", ":"))


def test_the_topic_is_written_as_confluents_registry_does_and_what_that_wrote_is_read() -> None:
    with Broker(schema_registry=True) as broker:
        schema_id = client(broker).register_schema("orders-value", Schema(ORDER, "AVRO"))
        (record,) = broker.records("_schemas")
        assert json.loads(record.key_text or "") == {
            "keytype": "SCHEMA",
            "subject": "orders-value",
            "version": 1,
            "magic": 1,
        }
        assert {name: record.json()[name] for name in ("subject", "version", "id", "deleted")} == {
            "subject": "orders-value",
            "version": 1,
            "id": schema_id,
            "deleted": False,
        }
        theirs = {"subject": "theirs", "version": 4, "id": 90, "schema": '"string"', "deleted": False}
        broker.produce(
            "_schemas",
            json.dumps(theirs).encode(),
            key=b'{"keytype":"SCHEMA","subject":"theirs","version":4,"magic":1}',
        )
        broker.produce("_schemas", None, key=b'{"keytype":"NOOP","magic":0}')
        broker.restart()
        assert client(broker).get_schema(90).schema_str == '"string"'
        assert client(broker).register_schema("more", Schema(LATER, "AVRO")) == 91


def ask(broker: Broker, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(
        broker.schema_registry_url + path, None if body is None else body.encode(), method=method
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error_code"]


def test_any_schema_is_compatible_with_a_subject_that_has_none_yet() -> None:
    """It holds for `latest` and for all versions, and once the subject was deleted; a version by its number is not
    there. The schema itself must be valid.
    """
    with Broker(schema_registry=True) as broker:
        path, body = "/compatibility/subjects/new-value/versions", json.dumps({"schema": ORDER})
        for _ in range(2):
            for which in ("/latest", "/-1", ""):
                code, answer = ask(broker, "POST", path + which, body)
                assert (code, answer["is_compatible"]) == (200, True), which
                assert ask(broker, "POST", path + which, '{"schema": "\\"Unknown\\""}') == (422, 42201)
            assert ask(broker, "POST", f"{path}/1", body) == (404, 40402)
            assert ask(broker, "POST", f"{path}/x", body) == (422, 42202)
            assert client(broker).test_compatibility("new-value", Schema(ORDER, "AVRO"))
            client(broker).register_schema("new-value", Schema(OTHER, "AVRO"))
            client(broker).delete_subject("new-value")


def test_what_is_wrong_gets_confluents_codes() -> None:
    with Broker(schema_registry=True) as broker:
        client(broker).register_schema("orders-value", Schema(ORDER, "AVRO"))
        assert ask(broker, "GET", "/subjects/none/versions") == (404, 40401)
        assert ask(broker, "GET", "/subjects/orders-value/versions/2") == (404, 40402)
        assert ask(broker, "GET", "/subjects/orders-value/versions/x") == (422, 42202)
        assert ask(broker, "GET", "/schemas/ids/9") == (404, 40403)
        assert ask(broker, "GET", "/config/orders-value") == (404, 40408)
        assert ask(broker, "GET", "/config/orders-value?defaultToGlobal=true")[0] == 200
        assert ask(broker, "PUT", "/config", '{"compatibility": "SIDEWARDS"}') == (422, 42203)
        assert ask(broker, "POST", "/subjects/x/versions", '{"schema": "{"}') == (422, 42201)
        assert ask(broker, "POST", "/subjects/x/versions", "{}") == (422, 42201)
        unknown = {"schema": '"Unknown"', "references": [{"name": "Unknown", "subject": "none", "version": 1}]}
        assert ask(broker, "POST", "/subjects/x/versions", json.dumps(unknown)) == (422, 42201)
        assert ask(broker, "POST", "/subjects/x/versions", json.dumps({"schema": '"Unknown"'})) == (422, 42201)
        assert ask(broker, "POST", "/subjects/x/versions", "no JSON") == (400, 400)
        assert ask(broker, "GET", "/contexts") == (404, 404)
        broker.stop()
        assert ask(broker, "GET", "/subjects") == (200, ["orders-value"])
        assert ask(broker, "POST", "/subjects/x/versions", json.dumps({"schema": OTHER})) == (500, 50001)
        broker.start()
        assert ask(broker, "GET", "/subjects") == (200, ["orders-value"]), "what was refused is not there"


def test_without_the_argument_there_is_none_and_a_topic_only_once_it_is_used() -> None:
    with Broker() as broker:
        with pytest.raises(RuntimeError, match="start the broker with schema_registry=True"):
            _ = broker.schema_registry_url
    with Broker(partitions=3, schema_registry=True, security="SASL_PLAINTEXT/PLAIN") as broker:
        assert (ask(broker, "GET", "/subjects"), broker.topics()) == ((200, []), [])
        client(broker).register_schema("orders-value", Schema(ORDER, "AVRO"))
        assert broker.topics() == ["_schemas"]
        with Producer(**broker.client_settings()) as producer:
            producer.send("orders", b"1")
        url = broker.schema_registry_url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)
