"""Every message in every version against bytes that Apache Kafka wrote: recorded, so that it needs no Java."""

import pytest

from oncelog.protocol.errors import ProtocolError
from tests.conformance.golden_messages import Golden, load, provenance
from tests.support.kafka.converted_json import as_json, renamed
from tests.support.requests.messages import every_version, generated
from tests.support.tables import rows

GOLDEN = load()
EACH = rows("golden", GOLDEN, lambda golden: f"{golden.schema.name}-{golden.version}")


def test_every_message_and_version_was_recorded() -> None:
    """After a new declaration: python -m tests.conformance.golden_messages."""
    recorded = {(golden.schema.name, golden.version) for golden in GOLDEN}
    assert recorded == {(schema.name, version) for schema, version in every_version()}
    assert provenance()["recorded from"].startswith("Apache Kafka 4.3")


@EACH
def test_what_kafka_wrote_is_read_as_kafka_reads_it_and_written_again(golden: Golden) -> None:
    module = generated(golden.schema)
    message, end = module.decode(memoryview(golden.written), golden.version)
    assert end == len(golden.written)
    structure = golden.schema.structure
    assert as_json(message, structure, golden.version) == renamed(golden.printed, structure, golden.version)
    assert b"".join(module.encode(message, golden.version)) == golden.written


@EACH
def test_a_message_without_values_is_the_one_that_kafka_constructs(golden: Golden) -> None:
    module = generated(golden.schema)
    message = getattr(module, golden.schema.name)()
    if golden.default is None:
        with pytest.raises((ProtocolError, TypeError, AttributeError)):
            module.encode(message, golden.version)
    else:
        assert b"".join(module.encode(message, golden.version)) == golden.default
