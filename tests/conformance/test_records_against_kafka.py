"""Record batches, markers, error codes and hashes against Apache Kafka's own classes.

Needs Java and Kafka's jars: ONCELOG_KAFKA_LIBS names their directory.
"""

import random
from pathlib import Path

import pytest

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.partitioning import coordinator_partition, java_string_hash, murmur2
from oncelog.protocol.records.batch import check_crc, encode_batch, read_header
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from tests.support.kafka.java import ask_kafka

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "KafkaFacts.java"
COUNTS = (1, 3, 2_000)


def random_records(source: random.Random, count: int) -> list[Record]:
    def content() -> bytes | None:
        return None if source.random() < 0.2 else source.randbytes(source.choice((0, 3, 300)))

    return [
        Record(
            index,
            source.randrange(2**41),
            content(),
            content(),
            tuple((source.choice(("", "h", "ü🙂")), content()) for _ in range(source.choice((0, 0, 2)))),
        )
        for index in range(count)
    ]


def as_kafka_prints(records: list[Record]) -> str:
    def text(content: bytes | None) -> str:
        return "null" if content is None else content.hex()

    lines = []
    for offset, timestamp, key, value, headers in records:
        shown = [f"{name.encode().hex()}={text(content)}" for name, content in headers]
        lines.append(" ".join([str(offset), str(timestamp), text(key), text(value), *shown]) + ";")
    return "".join(lines)


def test_kafka_reads_our_batches_of_every_codec() -> None:
    source = random.Random(4)
    cases = [(name, random_records(source, count)) for name in CODECS for count in COUNTS]
    batches = [
        encode_batch(records, compression=name, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True)
        for name, records in cases
    ]
    answers = ask_kafka(PROGRAM, [f"read {batch.hex()}" for batch in batches])
    for (name, records), batch, answer in zip(cases, batches, answers, strict=True):
        header = read_header(batch)
        batch_line = f"batch 9 2 5 {header.last_sequence} true false {header.last_offset} {header.max_timestamp};"
        assert answer == batch_line + as_kafka_prints(records), f"{name}, {len(records)} records"


def test_we_read_kafkas_batches_of_every_codec() -> None:
    cases = [(name, count) for name in CODECS for count in COUNTS]
    answers = ask_kafka(PROGRAM, [f"write {name} {count}" for name, count in cases])
    for (name, count), answer in zip(cases, answers, strict=True):
        batch = memoryview(bytes.fromhex(answer))
        header = read_header(batch)
        assert check_crc(batch), name
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
        assert header.compression_type == CODECS[name]
        assert decode_records(batch) == [
            Record(index, 1000 + index * 7, b"key-%d" % index, b"value-%d" % index * 20) for index in range(count)
        ]


@pytest.mark.parametrize("kind", ControlRecordType)
def test_our_markers_are_kafkas_byte_for_byte(kind: ControlRecordType) -> None:
    (answer,) = ask_kafka(PROGRAM, [f"marker 5 3 {kind.name}"])
    assert encode_end_txn_marker(5, 3, kind, 3, 1234, base_offset=17).hex() == answer


def test_hashes_and_partitions_are_javas() -> None:
    source = random.Random(6)
    keys = [source.randbytes(source.randrange(30)) for _ in range(300)]
    texts = ["".join(source.choices("abz09-_.üß漢🙂", k=source.randrange(1, 40))) for _ in range(300)]
    questions = [f"murmur2 {key.hex()}" for key in keys] + [f"hash {text.encode().hex()}" for text in texts]
    answers = ask_kafka(PROGRAM, questions)
    assert [murmur2(key) for key in keys] == [int(answer) % 2**32 for answer in answers[: len(keys)]]
    ours = [f"{java_string_hash(text)} {coordinator_partition(text, 50)}" for text in texts]
    assert ours == answers[len(keys) :]


def test_error_codes_and_api_keys_are_kafkas() -> None:
    errors, keys = ask_kafka(PROGRAM, ["errors", "keys"])
    ours = [f"{code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode]
    assert sorted(errors.split(";")) == sorted([*ours, ""])
    assert keys == "".join(f"{key.value} {key.name};" for key in ApiKey)
