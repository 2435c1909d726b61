"""`oncelog log dump`: as JSON what Kafka's tool printed of recorded files, a table of it, and damage with its place."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli import main
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import assemble_batch, iter_batches
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record, encode_records
from oncelog.tools.log.dump.decoders import metadata, offsets, transactions
from tests.support.kafka.dumps import CASES, PARTITIONS, ROOT, arguments, rows_of_kafka, rows_of_ours

DATA = ROOT / "orders-0"
LOGS = sorted(DATA.glob("*.log"))


def dump(*options: str | Path) -> Result:
    return CliRunner().invoke(main, ["log", "dump", *map(str, options)])


def objects(*options: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump(*options, "--json").stdout.splitlines()]


# --- what Kafka prints ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_what_kafka_printed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = dump(*arguments(case, ROOT), "--json")
    kafkas = (ROOT / f"{case}.txt").read_bytes().decode()
    ours = rows_of_ours(result.stdout, with_offsets=not case.endswith("-alone"))
    assert list(ours) == list(rows_of_kafka(kafkas))
    assert result.exit_code == (1 if case == "damaged" else 0)


def test_recorded_files_hold_one_of_everything() -> None:
    """Otherwise the recordings would show less than they seem to."""
    text = "".join((ROOT / f"{case}.txt").read_text() for case in CASES)
    for expected in (
        *(f"compresscodec: {codec} " for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
        "endTxnMarker: COMMIT",
        "endTxnMarker: ABORT",
        "LogAppendTime",
        "deleteHorizonMs: OptionalLong[",
        " count: 0 ",
        "headerKeys: [trace,säge]",
        "isvalid: false",
        "invalid bytes at the end",
        "currentTxnFirstOffset: OptionalLong[",
        "lastStableOffset: ",
        'payload: {"version":"4","data":{"offset":',
        '"subscription":{"topics":',
        "<DELETE>",
        '"type":"8"',
        "is empty.",
        "passed sanity check.",
    ):
        assert expected in text, expected


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize(("option", "shown"), [("--max-bytes=2147483647", "batch"), ("--deep-iteration", "record")])
def test_tables_have_a_line_for_each_object(partition: str, option: str, shown: str) -> None:
    """Below the path of each file and the headings, also of files in which something is damaged."""
    rows = [row for row in objects(ROOT / partition, option) if row["kind"] not in {"batch", "record"} - {shown}]
    entries = [row for row in rows if "problem" not in row and not row["kind"].endswith(("mismatch", "gap"))]
    tables = [table.splitlines() for table in dump(ROOT / partition, option).stdout.split("\n\n")]
    assert [table[0] for table in tables] == sorted(map(str, (ROOT / partition).iterdir()))
    for path, *lines in tables:
        of_file = [row for row in entries if row["file"] == path]
        headings = 0 if "empty" in (row["kind"] for row in of_file) else -(-len(of_file) // 200)
        assert len(lines) == len(of_file) + headings, path


def test_tables_show_what_people_look_for() -> None:
    """The batch, the marker and the key, in columns that are aligned, with a moment to the millisecond."""
    batches = dump(LOGS[0]).stdout.splitlines()
    headings = "base_offset  last_offset  records  position  size  max_timestamp             producer_id"
    assert batches[1].startswith(headings)
    assert batches[2].split()[:6] == ["0", "1", "2", "0", "131", "2026-11-21T11:20:23.819Z"]
    assert len({line.index("none") for line in batches[2:]}) == 1
    records = dump(LOGS[-1], "--print-data-log").stdout.splitlines()
    assert records[1].split()[-4:] == ["value_size", "headers", "key", "value"]
    assert any(line.split()[3:5] == ["COMMIT", "0"] for line in records)
    assert any("buyer" in line.split() for line in records)
    groups = dump(ROOT / "__consumer_offsets-0", "--offsets-decoder").stdout
    assert '{"type":"1","data":{"group":"group-classic","topic":"orders","partition":0}}' in groups


def test_json_keeps_the_bytes_of_values_that_are_no_text() -> None:
    values = [entry for entry in objects(LOGS[0], "--print-data-log") if entry["kind"] == "record"]
    assert all("value_base64" in entry for entry in values if entry["value"] is not None)
    assert all("key_base64" not in entry for entry in values)


def test_directory_stands_for_all_of_its_files() -> None:
    names = sorted(path for path in DATA.iterdir())
    assert dump(DATA).stdout == dump("--files", ",".join(map(str, names))).stdout == dump(*names).stdout
    assert dump(f"{DATA}/").stdout == dump(DATA).stdout


# --- damage -----------------------------------------------------------------------------------------------------------

_OUTSIDE_THE_CHECKSUM = {*range(8), *range(12, 16)}  # base offset and leader epoch


@given(st.data())
def test_a_flipped_bit_of_a_batch_is_reported_with_its_file_and_position(data: st.DataObject) -> None:
    content = bytearray(LOGS[0].read_bytes())
    batches = list(iter_batches(memoryview(bytes(content))))
    slot = data.draw(st.integers(0, len(batches) - 1))
    position = sum(len(batch) for _, batch in batches[:slot])
    at = data.draw(st.integers(0, len(batches[slot][1]) - 1).filter(lambda at: at not in _OUTSIDE_THE_CHECKSUM))
    content[position + at] ^= 1 << data.draw(st.integers(0, 7))
    with TemporaryDirectory() as directory:
        path = Path(directory, LOGS[0].name)
        path.write_bytes(content)
        result = dump(path, "--print-data-log")
        assert result.exit_code == 1, result.output
        assert f"oncelog: {path} at position {position}, offset " in result.stderr
        told = [entry for entry in objects(path, "--print-data-log") if entry["kind"] == "problem"]
        assert told[0]["position"] == position


@given(cut=st.integers(0, LOGS[0].stat().st_size))
def test_a_file_that_is_cut_is_read_up_to_the_cut(cut: int) -> None:
    content = LOGS[0].read_bytes()
    ends = [0]
    for _, batch in iter_batches(memoryview(content)):
        ends.append(ends[-1] + len(batch))
    with TemporaryDirectory() as directory:
        path = Path(directory, LOGS[0].name)
        path.write_bytes(content[:cut])
        result = dump(path)
        assert len(result.stdout.splitlines()[2:]) == sum(0 < end <= cut for end in ends)
        assert result.exit_code == (0 if cut in ends else 1)
        if cut not in ends:
            assert f"the last {cut - max(end for end in ends if end < cut)} bytes hold no whole batch" in result.stderr


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_records_before_a_malformed_one_are_shown(compression: str, tmp_path: Path) -> None:
    """Though the checksum holds: a broken producer has written this."""
    values = [b"first", b"second", b"third"]
    body = bytearray(encode_records([Record(slot, 7, None, value) for slot, value in enumerate(values)], 7))
    body[body.index(b"second") - 1] = 0x7E  # the length of the value
    packed = bytes(body) if compression == "none" else compress(CODECS[compression], bytes(body))
    path = tmp_path / "00000000000000000005.log"
    path.write_bytes(
        assemble_batch(
            packed,
            attributes=CODECS[compression],
            record_count=3,
            base_timestamp=7,
            max_timestamp=7,
            base_offset=5,
        )
    )
    result = dump(path, "--print-data-log")
    assert result.exit_code == 1
    (record,) = [row for row in objects(path, "--print-data-log") if row["kind"] == "record"]
    assert (record["offset"], record["timestamp"], record["value"]) == (5, 7, "first")
    assert f"oncelog: {path} at position 0, offset 6: " in result.stderr


@given(suffix=st.sampled_from(["log", "index", "timeindex", "txnindex", "snapshot", "batches"]), content=st.binary())
def test_no_bytes_stop_the_dump(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as directory:
        shutil.copy(LOGS[0], directory)
        path = Path(directory, LOGS[0].name).with_suffix(f".{suffix}")
        path.write_bytes(content)
        for options in (["--print-data-log"], ["--index-sanity-check", "--offsets-decoder"], ["--json"]):
            result = dump(path, *options)
            assert result.exit_code in (0, 1), result.output
            assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("decode", [offsets, transactions, metadata])
@given(data=st.data())
def test_no_record_stops_a_decoder(decode: Any, data: st.DataObject) -> None:
    """Whole records of the topics, with bytes changed; and anything at all."""
    recorded = data.draw(st.sampled_from(_records()))
    key, value = (_changed(data, part) for part in (recorded.key, recorded.value))
    try:
        decode(Record(7, 0, key, value))
    except ProtocolError as error:
        assert "no key" in str(error)


def _records() -> list[Record]:
    from oncelog.protocol.records.record import decode_records

    topics = ("__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0")
    logs = [path for topic in topics for path in sorted((ROOT / topic).glob("*.log"))]
    batches = [batch for path in logs for _, batch in iter_batches(memoryview(path.read_bytes()))]
    return [record for batch in batches for record in decode_records(batch)][:60]


def _changed(data: st.DataObject, part: bytes | None) -> bytes | None:
    if not part or data.draw(st.booleans()):
        return data.draw(st.one_of(st.none(), st.binary(max_size=40)))
    changed = bytearray(part)
    changed[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed[: data.draw(st.integers(0, len(part)))])


def test_index_entry_larger_than_the_limit_or_without_a_log_is_reported(tmp_path: Path) -> None:
    index = max(DATA.glob("*.index"), key=lambda path: path.stat().st_size)
    assert index.stat().st_size
    assert dump(index, "--max-message-size", "10").exit_code == 1
    shutil.copy(index, tmp_path)
    result = dump(tmp_path / index.name)
    assert result.exit_code == 1
    assert f"{tmp_path / index.name}: the .log file of this index is missing" in result.stderr


def test_room_that_kafka_sets_aside_in_an_index_is_no_damage(tmp_path: Path) -> None:
    shutil.copy(LOGS[1], tmp_path)
    for suffix, entry_bytes in ((".index", 8), (".timeindex", 12)):
        path = tmp_path / LOGS[1].with_suffix(suffix).name
        for kept in (b"", LOGS[1].with_suffix(suffix).read_bytes()):
            path.write_bytes(kept + bytes(100 * entry_bytes))
            result = dump(path)
            assert (result.exit_code, result.stderr) == (0, "")
            entries = [row for row in objects(path) if row["kind"] != "empty"]
            assert len(entries) == len(kept) // entry_bytes


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "Name files or the directory"),
        (["--remote-log-metadata-decoder", LOGS[0]], "no tiered storage"),
        (["--value-decoder-class", "com.example.Mine", LOGS[0]], "com.example.Mine is a Java class"),
        ([ROOT / "batches.txt"], "this is no file of a partition"),
        ([ROOT / "00000000000000000009.log"], "No such file"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(options: list[Any], told: str) -> None:
    result = dump(*options)
    assert result.exit_code == 2
    assert told in result.stderr


def test_decoders_without_a_name_are_those_of_text() -> None:
    assert dump(LOGS[0], "--value-decoder-class").stdout == dump(LOGS[0], "--print-data-log").stdout


def test_values_too_short_for_a_number_are_reported() -> None:
    result = dump(ROOT / "numbers-0", "--value-decoder-class", "LongDecoder")
    assert result.exit_code == 1
    assert "bytes are not a number of 8 bytes" in result.stderr


def test_nothing_is_changed_by_looking(tmp_path: Path) -> None:
    """The command works also on files and in a directory that may only be read."""
    shutil.copytree(DATA, tmp_path / "orders-0")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "orders-0").iterdir()}
    for path in (tmp_path / "orders-0").iterdir():
        path.chmod(0o400)
    (tmp_path / "orders-0").chmod(0o500)
    assert dump(tmp_path / "orders-0", "--print-data-log").exit_code == 0
    (tmp_path / "orders-0").chmod(0o700)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "orders-0").iterdir()}
    assert after == before


def test_a_directory_without_files_of_a_partition_is_refused_with_what_to_name(tmp_path: Path) -> None:
    """The data directory is one: it holds the directories of partitions."""
    (tmp_path / "topic-0").mkdir()
    result = CliRunner().invoke(main, ["log", "dump", str(tmp_path)])
    assert result.exit_code == 2
    assert f"No file of a partition in {tmp_path}: name a .log file, or the directory of a partition" in result.output
