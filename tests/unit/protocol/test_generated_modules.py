"""What every generated module promises, besides its format: no copies of record data, defaults, equality."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from uuid import UUID

import pytest

from oncelog.protocol import compiled, messages, state_records
from oncelog.protocol.codec import function_text
from oncelog.protocol.generated import create_acls_request, fetch_response, metadata_response, produce_request
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.generated.metadata_response import MetadataResponse, MetadataResponseTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.messages.create_acls import CREATE_ACLS_REQUEST
from oncelog.protocol.schema import Schema
from tests.support.requests.messages import SCHEMAS, generated
from tests.support.tables import rows
from tools.write_codecs import GENERATED

MOST_LINES = 27_000
"""The limit in docs/understand/architecture.md. A rare API adds little more than its classes (`protocol.compiled`)."""


def produce(records: bytes | memoryview | None) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=1_500, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )


def test_a_produce_request_is_the_bytes_that_kafka_documents() -> None:
    assert b"".join(produce_request.encode(produce(b"batch"), 7)) == bytes.fromhex(
        "ffff ffff 000005dc 00000001 0001 74 00000001 00000003 00000005 6261746368"
    )
    assert b"".join(produce_request.encode(produce(b"batch"), 9)) == bytes.fromhex(
        "00 ffff 000005dc 02 02 74 02 00000003 06 6261746368 00 00 00"
    )


@pytest.mark.parametrize("version", [7, 9, 12])
def test_decoded_records_are_a_view_of_the_frame(version: int) -> None:
    frame = b"".join(produce_request.encode(produce(b"batch"), version))
    request, _ = produce_request.decode(memoryview(frame), version)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == b"batch"


@pytest.mark.parametrize("version", [11, 12])
def test_encoded_records_are_the_object_that_was_given(version: int) -> None:
    records = memoryview(bytes(100_000))
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])
    parts = fetch_response.encode(FetchResponse(responses=[topic]), version)
    assert any(part is records for part in parts)


@rows("schema", SCHEMAS.values(), lambda schema: schema.name)
def test_a_module_says_what_it_holds(schema: object) -> None:
    module = generated(schema)
    assert (schema.name, schema.api_key) == (module.NAME, module.API_KEY)
    assert (schema.version_range, schema.flexible_from) == (module.VERSIONS, module.FLEXIBLE_FROM)


def test_messages_are_equal_by_value_whatever_sequence_holds_their_arrays() -> None:
    one = MetadataResponse(topics=[MetadataResponseTopic(name="t")])
    other = MetadataResponse(topics=(MetadataResponseTopic(name="t"),))
    assert one == other
    assert one != MetadataResponse(topics=[MetadataResponseTopic(name="u")])
    assert one != MetadataResponseTopic(name="t")
    assert "name='t'" in repr(one)


def test_defaults_are_those_of_the_schema() -> None:
    topic = metadata_response.MetadataResponseTopic()
    assert (topic.topic_id, topic.partitions, topic.topic_authorized_operations) == (UUID(int=0), (), -(2**31))


def test_messages_have_no_room_for_misspelt_fields() -> None:
    with pytest.raises(AttributeError):
        ProduceRequest().transaction_id = "id"  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", [messages, state_records], ids=["messages", "state_records"])
def test_each_declaration_names_its_kips(package: ModuleType) -> None:
    for path in sorted(Path(package.__path__[0]).glob("*.py")):
        if path.stem != "__init__":
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            assert re.search(r"^KIPs: (\d+ \(|none)", text, re.MULTILINE), path.name


def test_a_rare_codec_is_written_when_a_version_is_first_read_or_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, int, bool]] = []

    def text(schema: Schema, verb: str, version: int, sliced: bool) -> tuple[str, str]:
        written.append((verb, version, sliced))
        return function_text(schema, verb, version, sliced)

    monkeypatch.setattr(compiled, "function_text", text)
    request = create_acls_request.CreateAclsRequest([create_acls_request.AclCreation(resource_name="t")])
    decode, encode, decode_in_slices = compiled.compiled_request(CREATE_ACLS_REQUEST, type(request))
    assert written == []
    for version in (3, 2, 3):
        assert decode(memoryview(b"".join(encode(request, version))), version)[0] == request
    assert written == [("write", 3, False), ("read", 3, False), ("write", 2, False), ("read", 2, False)]
    list(decode_in_slices(memoryview(b"".join(encode(request, 3))), 3))
    assert written[4:] == [("read", 3, True)]


def test_our_client_needs_no_declaration() -> None:
    """All its requests have code of their own: reading declarations would make its import longer."""
    modules = ("admin.client", "producing.producer", "consuming.consumer")
    program = "import sys\n" + "".join(f"import oncelog.client.{each}\n" for each in modules)
    program += "sys.exit('oncelog.protocol.schema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_generated_code_is_no_longer_than_it_is_said_to_be() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in GENERATED.glob("*.py"))
    assert lines <= MOST_LINES
