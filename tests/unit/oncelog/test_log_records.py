"""`oncelog log verify --records`: a batch that is as it was written, and lacks records, is named with its place."""

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.log.batch_validation import stored_problem
from oncelog.broker.storage.shared.store import SharedSizes, open_store
from oncelog.broker.turns.slices import Slices
from oncelog.cli import main
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import assemble_batch, encode_batch, read_header
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record, encode_record
from oncelog.tools.log.tables.check import examine
from oncelog.tools.log.tables.content import TablesContent
from tests.fakes.broker import VirtualBroker
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime
from tests.support.logs.damage import TOPIC, fill, list_offset, produce
from tests.support.logs.data_directories import store
from tests.support.postgres.exported import InstantTables
from tests.support.requests.frame_shapes import COMPRESSING, lacking_a_record

RECORDS = tuple(Record(index, 1_700_000_000_000 + index, b"key", b"value") for index in range(400))


def of_deltas(codec: str, *deltas: int, announced: int | None = None) -> bytes:
    """A batch of records with these offsets within it."""
    body = b"".join(encode_record(Record(0, 0, b"key", b"value"), delta, 0) for delta in deltas)
    return assemble_batch(
        compress(CODECS[codec], body),
        attributes=CODECS[codec],
        record_count=len(deltas) if announced is None else announced,
        last_offset_delta=(len(deltas) if announced is None else announced) - 1,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_000,
    )


def cut(codec: str) -> bytes:
    """A batch whose compressed data ends early."""
    header = read_header(encode_batch(RECORDS, compression=codec))  # type: ignore[arg-type]
    body = encode_batch(RECORDS, compression=codec)[61:-20]  # type: ignore[arg-type]
    return assemble_batch(
        body,
        attributes=header.attributes,
        record_count=header.record_count,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
    )


WRONG = {
    "a record fewer": lambda codec: lacking_a_record(encode_batch(RECORDS, compression=codec)),
    "half of them": lambda codec: of_deltas(codec, *range(206), announced=400),
    "a record more": lambda codec: of_deltas(codec, 0, 1, 2, announced=2),
    "data that is cut off": cut,
    "an offset twice": lambda codec: of_deltas(codec, 0, 1, 1, 3),
    "an offset behind the last": lambda codec: of_deltas(codec, 0, 1, 5),
    "offsets in another order": lambda codec: of_deltas(codec, 1, 0, 2),
}


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_batch_without_the_records_that_it_announces_is_found(wrong: str, codec: str) -> None:
    batch = memoryview(WRONG[wrong](codec))
    assert stored_problem(batch, read_header(batch)) is not None


@pytest.mark.parametrize("codec", ("none", *COMPRESSING))
def test_a_batch_that_has_them_is_whole_and_so_is_one_that_compaction_has_thinned_out(codec: str) -> None:
    whole = memoryview(encode_batch(RECORDS, compression=codec))  # type: ignore[arg-type]
    assert stored_problem(whole, read_header(whole)) is None
    body = b"".join(encode_record(Record(0, 0, b"key", b"value"), delta, 0) for delta in (3, 7))
    for count, left in ((2, body), (0, b"")):
        data = compress(CODECS[codec], left) if codec != "none" and left else left
        attributes = CODECS[codec] if left else 0
        thinned = memoryview(
            assemble_batch(
                data,
                attributes=attributes,
                record_count=count,
                last_offset_delta=9,
                base_timestamp=0,
                max_timestamp=0,
            )
        )
        assert stored_problem(thinned, read_header(thinned)) is None


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["log", "verify", *map(str, arguments)])


@pytest.mark.parametrize("stop", ["kill -9", "clean stop"])
def test_verify_with_records_names_file_position_offsets_and_what_to_do(tmp_path: Path, stop: str) -> None:
    """A verify without the option compares checksums, which are right, and says so of them alone."""
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    good_end = list_offset(broker)[1]
    assert produce(broker, of_deltas("zstd", *range(206), announced=400)) == (ErrorCode.NONE, good_end)
    if stop == "clean stop":
        broker.broker.logs.close()
    store(broker.disk, tmp_path)
    assert run(tmp_path).exit_code == 0
    result = run(tmp_path, "--records")
    assert result.exit_code == 1, result.output
    assert f"{TOPIC}-0: offsets {good_end} to {good_end + 399}: {TOPIC}-0/" in result.output
    assert "400 records are announced, and fewer are there" in result.output
    assert "oncelog group reset" in result.output
    assert "are intact" not in result.output
    told = json.loads(run(tmp_path, "--records", "--json").stdout)
    assert told["damaged"] is False, "no repair is of use"
    (found,) = [entry for partition in told["partitions"] for entry in partition["incomplete"]]
    assert found["first_offset"] == good_end
    assert found["last_offset"] == good_end + 399
    assert (tmp_path / found["file"]).read_bytes()[found["position"] :].startswith(good_end.to_bytes(8, "big"))


def test_a_directory_whose_batches_are_all_whole_is_intact_with_records_too(tmp_path: Path) -> None:
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    store(broker.disk, tmp_path)
    result = run(tmp_path, "--records")
    assert result.exit_code == 0, result.output
    assert "all partitions are intact" in result.output


@pytest.mark.parametrize("place", ["chunk", "the journal"])
def test_tables_are_looked_into_as_files_are(place: str) -> None:
    database, time = Database(), VirtualTime()

    def fail(error: OSError) -> None:
        raise error

    tables = FakeTables(database, time, time, Random(1), takes_time=False)
    opening = Slices(time).run_own(open_store(tables, time, time, fail, sizes=SharedSizes(checkpoint_bytes=250_000)))
    while not opening.done:
        time.advance(1)
    broker = VirtualBroker(store=opening.result(), time=time)
    fill(broker, time.wall_ms())
    good_end = list_offset(broker)[1]
    assert produce(broker, of_deltas("zstd", *range(206), announced=400)) == (ErrorCode.NONE, good_end)
    if place == "chunk":
        time.advance(11_000)
        broker.broker.logs.step()
    time.advance(1_000)
    content = TablesContent(InstantTables(database))
    assert not examine(content, [], lambda _: None).incomplete_count
    found = examine(TablesContent(InstantTables(database)), [], lambda _: None, opens_batches=True)
    assert not found.is_damaged
    (incomplete,) = [entry for finding in found.findings for entry in finding.incomplete]
    assert (incomplete.first_offset, incomplete.next_offset) == (good_end, good_end + 400)
    assert incomplete.file.startswith(place)
