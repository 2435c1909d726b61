"""Each place that opens a batch gets every record of what Kafka accepts, and an error for the rest: never fewer.

What Kafka accepts is recorded in `tests/conformance/answers/frames_answers.json`.
"""

import ast
import tracemalloc
from collections.abc import Callable, Iterable
from gzip import compress as gzipped
from itertools import islice
from pathlib import Path
from struct import pack
from time import process_time

import pytest

import oncelog
from oncelog.broker.log.batch_validation import AT_ONCE_BYTES, LongBatch, validate_batch
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.opening import opened
from oncelog.broker.log.recompression import recompressed
from oncelog.broker.log.values import AppendOrigin
from oncelog.broker.storage.compaction.batch_filter import BatchFilter
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.memory.memory_log import first_as_late
from oncelog.broker.turns.ports import WallMs
from oncelog.broker.turns.slices import Slices
from oncelog.client.consuming.partition_state import PartitionState
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.sharing.pieces import iter_pieces
from oncelog.client.values.errors import CorruptBatch
from oncelog.client.values.records import Record as ConsumerRecord
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.generated.share_fetch_response import AcquiredRecords
from oncelog.protocol.records.batch import check_crc, read_header, uncompressed
from oncelog.protocol.records.bounds import Bounds
from oncelog.protocol.records.compression import CODECS, beginning, compress, decompress, decompress_in_steps
from oncelog.protocol.records.record import Record, decode_records
from oncelog.tools.copy.bundles import bundles
from oncelog.tools.log.dump.batches import LogOptions, dump_log
from oncelog.tools.log.dump.decoders import Decoded
from oncelog.tools.log.dump.findings import Findings
from tests.conformance.recordings import RECORDINGS
from tests.conformance.transcripts.frames_transcript import KINDS
from tests.fakes.scheduler import ManualScheduler
from tests.support.requests.frame_shapes import BODY, COMPRESSING, COUNT, RECORDS, START_MS, batch_of, shapes

PLACE = TopicPartition("t", 0)
NOW_MS = WallMs(START_MS)
Fields = list[tuple[int, bytes | None, bytes | None]]
WANTED: Fields = [(each.offset, each.key, each.value) for each in RECORDS]


def fields_of(records: Iterable[Record | ConsumerRecord]) -> Fields:
    return [(each.offset, each.key, each.value) for each in records]


def consumed(batch: bytes) -> Fields:
    state = PartitionState(PLACE)
    state.seek(0)
    state.add(memoryview(batch), ())
    taken: list[ConsumerRecord] = []
    state.take(1_000, taken, check_crcs=True)
    return fields_of(taken)


def shared(batch: bytes) -> Fields:
    acquired = [AcquiredRecords(first_offset=0, last_offset=COUNT - 1, delivery_count=1)]
    (piece,) = iter_pieces(PLACE, memoryview(batch), acquired, check_crcs=True)
    if piece.error is not None:
        raise piece.error
    return fields_of(record for record, _ in piece.records)


def raw(batch: bytes) -> Fields:
    header = read_header(batch)
    return fields_of(RawBatch(PLACE, header, batch, "plain", None, None, 0, 0).records())


def in_columns(batch: bytes) -> Fields:
    """Decode a batch as for Spark's columns; their own test is in tests/spark."""
    header, bounds = read_header(batch), Bounds()
    data = bytes(uncompressed(header, memoryview(batch)))
    bounds.add(data, 0, len(data), header.record_count, header.base_timestamp)
    cuts = iter(bounds.cuts[1:])
    numbers = iter(lambda: tuple(islice(cuts, 4)), ())
    return [(index, data[a:b], data[c:d]) for index, (a, b, c, d) in enumerate(numbers)]


class _File:
    path = "00000000000000000000.log"

    def __init__(self, data: bytes) -> None:
        self.data, self.size_bytes = data, len(data)

    def read_view(self, start: int, end: int) -> memoryview:
        return memoryview(self.data)[start:end]

    def close(self) -> None: ...


def dumped(batch: bytes) -> Fields:
    findings, records = Findings(), []

    def decode(record: Record) -> Decoded:
        records.append(record)
        return Decoded(None, None)

    for _ in dump_log(_File(batch), _File.path, LogOptions(decode, is_deep=True, print_data=True), findings):
        pass
    for row in findings.rows:
        if row["kind"] == "problem":
            assert (row["file"], row["position"]) == (_File.path, 0)
            raise ProtocolError(row["problem"])
    return fields_of(records)


def compacted(batch: bytes) -> Fields:
    """A round that removes the first record, so that the batch is encoded again; one that cannot is the same batch."""
    header, offset_map = read_header(batch), OffsetMap(1_000_000)
    nothing = AbortedTransactions(())
    assert offset_map.read(header, memoryview(batch), nothing)
    offset_map.put(RECORDS[0].key or b"", COUNT)
    cleaned = BatchFilter(offset_map, CleanedTransactions(nothing), {}, COUNT + 1, NOW_MS, 0)
    remainder = cleaned.prepare(header, memoryview(batch))
    assert remainder is not None
    if offset_map.undecodable:
        assert remainder.data == batch
        raise ProtocolError(offset_map.undecodable[0])
    return [WANTED[0], *fields_of(decode_records(memoryview(remainder.data)))]


def copied(batch: bytes) -> Fields:
    """Decode the copy of a batch from its second record on, so that it is encoded again."""
    (bundle,) = bundles([(read_header(batch), memoryview(batch))], 1)
    assert bundle.record_count == COUNT - 1
    found = fields_of(decode_records(memoryview(bundle.encoded)))
    return [WANTED[0], *((offset + 1, key, value) for offset, key, value in found)]


def encoded_again(batch: bytes) -> Fields:
    """Decode it after Produce has re-encoded it for a topic with another codec."""
    header = read_header(batch)
    other = "gzip" if header.compression_type != CODECS["gzip"] else "uncompressed"
    config = LogConfig(compression_type=other)
    try:
        whole, _ = recompressed(memoryview(batch), header, config, NOW_MS)
    except LongBatch:
        whole = _opened_beside(batch, config)
    return fields_of(decode_records(whole))


def validated(batch: bytes) -> Fields:
    config = LogConfig(record_validation="full")
    try:
        validate_batch(memoryview(batch), config, NOW_MS, AppendOrigin.CLIENT)
    except LongBatch:
        _opened_beside(batch, config)
    return fields_of(decode_records(memoryview(batch)))


def _opened_beside(batch: bytes, config: LogConfig) -> memoryview:
    scheduler = ManualScheduler()
    slices = Slices(scheduler)
    opening = slices.run_own(opened(memoryview(batch), config, NOW_MS, slices))
    scheduler.run()
    return opening.result().batch


def looked_up(batch: bytes) -> Fields:
    """Find each record by its time; a batch that cannot be decoded is found at its first offset."""
    found = [first_as_late(batch, each.timestamp, 0) for each in RECORDS]
    offsets = [each[0] for each in found if each is not None]
    if offsets == [0] * COUNT:
        raise ProtocolError("the batch is found at its beginning")
    return [WANTED[offset] for offset in offsets]


PLACES: dict[str, Callable[[bytes], Fields]] = {
    "decode_records": lambda batch: fields_of(decode_records(memoryview(batch))),
    "a consumer": consumed,
    "a share consumer": shared,
    "raw batches": raw,
    "columns": in_columns,
    "a dump": dumped,
    "compaction": compacted,
    "a copy": copied,
    "another codec": encoded_again,
    "full validation": validated,
    "a look-up by time": looked_up,
}


def accepted_by_kafka(codec: str, shape: str) -> bool:
    return RECORDINGS["frames"].kafkas()[f"{codec}: {shape}, {KINDS[0]}"].startswith("('NONE'")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_record_is_found_or_the_batch_is_refused(codec: str, place: str) -> None:
    for shape, data in shapes(codec).items():
        batch = batch_of(codec, data)
        if accepted_by_kafka(codec, shape):
            assert PLACES[place](batch) == WANTED, shape
        else:
            with pytest.raises((ProtocolError, KafkaError, CorruptBatch)):
                PLACES[place](batch)


def test_only_those_decompress_who_count() -> None:
    """A body that is opened elsewhere could be taken for whole."""
    root = Path(oncelog.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "decompress" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        and node.module == "oncelog.protocol.records.compression"
        and {"decompress", "decompress_in_steps"} & {name.name for name in node.names}
    }
    assert found == {"broker/log/batch_validation.py", "protocol/records/batch.py"}


# --- what many frames may cost ----------------------------------------------------------------------------------------

ALL_FRAMES = pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd"])


@ALL_FRAMES
def test_the_limit_counts_the_bytes_of_all_frames_together(codec: str) -> None:
    number = CODECS[codec]
    bomb = compress(number, bytes(100_000)) * 10
    assert len(decompress(number, bomb, 1_000_000)) == 1_000_000
    for opening in (decompress, decompress_in_steps):
        with pytest.raises(ProtocolError, match="more than 999999"):
            opening(number, bomb, 999_999)


@ALL_FRAMES
def test_the_time_of_empty_frames_grows_with_their_number(codec: str) -> None:
    """Were what is behind each frame copied, eight times as many would take 64 times as long. Processor time, and twice
    the margin of a busy machine."""
    number = CODECS[codec]
    frame = compress(number, b"")

    def cost(count: int) -> float:
        data, costs = frame * count, []
        for _ in range(3):
            start = process_time()
            assert decompress(number, data, 1) == b""
            costs.append(process_time() - start)
        return min(costs)

    assert cost(16_000) < 32 * cost(2_000)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_there_is_a_limit_to_the_number_of_frames(codec: str) -> None:
    number = CODECS[codec]
    with pytest.raises(ProtocolError, match="more than 50000 compressed frames"):
        decompress(number, compress(number, b"") * 50_001, 1)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_many_small_frames_are_not_opened_in_the_turn_of_their_append(codec: str) -> None:
    """However few bytes they are, and become: each frame takes time."""
    batch = memoryview(batch_of(codec, compress(CODECS[codec], b"") * 500 + shapes(codec)["one frame"]))
    assert len(batch) < AT_ONCE_BYTES
    with pytest.raises(LongBatch):
        recompressed(batch, read_header(batch), LogConfig(compression_type="uncompressed"), NOW_MS)
    with pytest.raises(LongBatch):
        validate_batch(batch, LogConfig(record_validation="full"), NOW_MS, AppendOrigin.CLIENT)


def test_members_behind_one_another_are_not_copied_for_each() -> None:
    data = gzipped(b"x" * 1_000) * 10_000
    decompress(CODECS["gzip"], data[:1_000])
    tracemalloc.start()
    try:
        for _ in range(2):
            assert len(decompress_in_steps(CODECS["gzip"], data, 1 << 30)) == 10_000_000
        assert tracemalloc.get_traced_memory()[1] < 15_000_000
    finally:
        tracemalloc.stop()


@ALL_FRAMES
def test_a_beginning_is_of_the_first_frames(codec: str) -> None:
    number = CODECS[codec]
    assert beginning(number, compress(number, b"one") + compress(number, b"") + compress(number, b"two")) == b"onetwo"
    assert len(beginning(number, compress(number, bytes(1_000)) * 1_000)) <= 16_000
    assert len(beginning(number, compress(number, bytes(10_000_000)))) <= 256 * 1024


def test_a_frame_of_zstd_that_is_cut_off_behind_a_whole_one_ends_the_data() -> None:
    whole = compress(CODECS["zstd"], BODY)
    for cut in range(1, len(whole)):
        assert decompress(CODECS["zstd"], whole + whole[:-cut])[: len(BODY)] == BODY
    with pytest.raises(ProtocolError, match="ends early"):
        decompress(CODECS["zstd"], whole[:-1])


def test_a_skippable_frame_alone_is_no_data() -> None:
    for number in range(16):
        assert decompress(CODECS["zstd"], pack("<II", 0x184D2A50 + number, 3) + b"abc") == b""


def test_a_damaged_batch_is_not_kept_by_compaction() -> None:
    """Only one that is as its producer sent it is: of this one a byte has changed on the disk."""
    data = bytearray(batch_of("zstd", shapes("zstd")["two frames"]))
    data[-10] ^= 0xFF
    assert not check_crc(memoryview(data))
    with pytest.raises(ProtocolError):
        OffsetMap(1_000_000).read(read_header(data), memoryview(data), AbortedTransactions(()))
