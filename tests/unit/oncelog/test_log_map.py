"""`oncelog log map`: what it says of each batch and of each offset is what the broker itself holds to be true."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli import main
from oncelog.protocol.records.batch import iter_batches
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.tools.log.map.partition import PartitionMap, State
from oncelog.tools.log.map.picture import svg
from oncelog.tools.log.map.reader import read_map
from oncelog.tools.log.points import KnownPoints, known_points
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import Logs, batch
from tests.support.kafka.dumps import ROOT
from tests.support.logs.damage import END_OFFSET, TOPIC, fill

LETTERS = {
    State.PLAIN: ".",
    State.COMMITTED: "C",
    State.ABORTED: "A",
    State.OPEN: "O",
    State.COMMIT_MARKER: "c",
    State.ABORT_MARKER: "a",
    State.EMPTIED: "_",
    State.DAMAGED: "!",
}


def store(disk: MemoryDisk, data_dir: Path) -> None:
    for name in disk.directories:
        (data_dir / name).mkdir(parents=True, exist_ok=True)
    for name, inode in disk.files.items():
        (data_dir / name).write_bytes(inode.data)


def run(*options: str | Path) -> Result:
    return CliRunner().invoke(main, ["log", "map", *map(str, options)])


def rows(output: str) -> list[str]:
    """The cells of each row."""
    return re.findall(r"^ *\d+ ([.CAOcak_!]*)$", output, re.MULTILINE)


# --- against the log itself -------------------------------------------------------------------------------------------


@dataclass
class History:
    """A log that is written to at random, and what became of each of its batches."""

    logs: Logs
    expected: dict[int, State] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = self.logs.open(segment_bytes=600, index_interval_bytes=100)

    def append_plain(self, count: int) -> None:
        self.expected[self.logs.append(self.log, batch(count)).base_offset] = State.PLAIN

    def append_in_transaction(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        data = batch(count, producer_id=producer_id, base_sequence=sequence, transactional=True)
        offset = self.logs.append(self.log, data).base_offset
        self.sequences[producer_id] = sequence + count
        self.open.setdefault(producer_id, []).append(offset)
        self.expected[offset] = State.OPEN

    def end(self, producer_id: int, committed: bool) -> None:
        marker = self.logs.end_transaction(self.log, producer_id, committed=committed)
        self.expected[marker.base_offset] = State.COMMIT_MARKER if committed else State.ABORT_MARKER
        for offset in self.open.pop(producer_id):
            self.expected[offset] = State.COMMITTED if committed else State.ABORTED


STEPS = st.lists(
    st.tuples(st.sampled_from(["plain", "write", "end", "flush", "cut"]), st.integers(0, 2), st.booleans()),
    min_size=10,
    max_size=60,
)


@given(STEPS)
def test_each_batch_and_each_ruler_is_what_the_log_says(steps: list[tuple[str, int, bool]]) -> None:
    """The map is right also while writes are under way: a marker that is not durable yet has not ended its transaction
    for readers.
    """
    history = History(Logs())
    history.append_plain(1)
    for step, number, flag in steps:
        if step == "plain":
            history.append_plain(number + 1)
        elif step == "write":
            history.append_in_transaction(number, 1 + flag)
        elif step == "end" and number in history.open:
            history.end(number, flag)
        elif step == "flush":
            history.logs.flush()
        elif step == "cut":
            history.log.advance_log_start(min(history.log.log_start_offset + 3 * number, history.log.high_watermark))
            history.logs.flush()
    log = history.log
    with TemporaryDirectory() as directory:
        store(history.logs.disk, Path(directory))
        found = read_map(Path(directory, "topic-0"), KnownPoints(log.log_start_offset, log.high_watermark))
    offsets = [found.log_start_offset, found.last_stable_offset, found.high_watermark, found.log_end_offset]
    assert offsets == [log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset]
    states = dict(zip(found.base_offsets, map(State, found.states), strict=True))
    assert states == {offset: state for offset, state in history.expected.items() if offset in states}
    assert all(offset in states for offset in history.expected if offset >= log.log_start_offset)
    assert not found.is_damaged


def test_transaction_whose_records_are_all_deleted_still_holds_readers_up(tmp_path: Path) -> None:
    """Only the producer snapshot at the log's start knows of it."""
    history = History(Logs())
    history.append_in_transaction(1, 1)
    for _ in range(30):
        history.append_plain(1)
    history.logs.flush()
    log = history.log
    log.advance_log_start(20)
    history.logs.flush()
    store(history.logs.disk, tmp_path)
    found = read_map(tmp_path / "topic-0", KnownPoints(log.log_start_offset, log.high_watermark))
    assert found.last_stable_offset == log.last_stable_offset == 20
    assert State.OPEN not in found.states
    assert [transaction.first_offset for transaction in found.open_transactions] == [0]


def test_broker_that_runs_is_seen_as_it_is(tmp_path: Path) -> None:
    """All that its clients know to be durable lies below the high watermark that is drawn."""
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    store(broker.disk, tmp_path)
    assert known_points(tmp_path, TOPIC, 0) == KnownPoints(0, END_OFFSET)
    assert known_points(tmp_path, "unheard-of", 0) == KnownPoints(None, None)
    assert known_points(tmp_path, "__cluster_metadata", 0).high_watermark
    result = run(tmp_path / f"{TOPIC}-0")
    assert result.exit_code == 0, result.output
    assert f"last stable offset = high watermark = log end offset {END_OFFSET}" in result.output


def test_kafkas_checkpoints_are_used_where_there_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n2\nother 0 9\norders 0 3\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 70\n")
    assert known_points(tmp_path, "orders", 0) == KnownPoints(3, 70)


# --- the picture ------------------------------------------------------------------------------------------------------


def test_picture_of_a_partition() -> None:
    result = run(ROOT / "orders-0", "--width", "60")
    assert result.output == (ROOT / "map.golden").read_text()


@given(width=st.integers(20, 120), partition=st.sampled_from(["orders-0", "compacted-0", "__consumer_offsets-0"]))
def test_rows_fit_the_width_and_show_every_batch_once(width: int, partition: str) -> None:
    result = run(ROOT / partition, "--width", str(width))
    found = read_map(ROOT / partition, KnownPoints(None, None))
    assert "".join(rows(result.output)) == "".join(LETTERS[State(state)] for state in found.states)
    assert all(len(row) <= width for row in re.findall(r"^ *\d+ [.CAOcak_!]*$", result.output, re.MULTILINE))
    for name in ("log start offset", "last stable offset", "high watermark", "log end offset"):
        assert result.output.count(name) == 1


def test_pointer_stands_below_the_batch_that_has_the_offset(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "orders-0", tmp_path / "orders-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    lines = run(tmp_path / "orders-0").output.splitlines()
    (pointer,) = [slot for slot, line in enumerate(lines) if "log start offset 3" in line]
    column = lines[pointer].index("▲") - lines[pointer - 1].index(".")
    found = read_map(tmp_path / "orders-0", KnownPoints(3, None))
    assert found.base_offsets[column] <= 3 < found.next_offsets[column]


def test_part_of_a_partition_can_be_drawn() -> None:
    whole, part = run(ROOT / "orders-0"), run(ROOT / "orders-0", "--from", "13", "--to", "40")
    cells = "".join(rows(part.output))
    assert cells in "".join(rows(whole.output))
    found = read_map(ROOT / "orders-0", KnownPoints(None, None))
    assert len(cells) == found.cell_of(40) + 1 - found.cell_of(13)
    assert "00000000000000000000.log" not in part.output
    legend = re.findall(r"^([.CAOcak_!]) +(\d+)  ", part.output, re.MULTILINE)
    assert {letter: int(count) for letter, count in legend} == Counter(cells)


def test_a_part_that_ends_before_it_begins_is_refused() -> None:
    result = run(ROOT / "orders-0", "--from", "10", "--to", "5")
    assert result.exit_code == 2 and "--from 10 is behind --to 5" in result.stderr


@given(first=st.integers(0, 100), last=st.integers(0, 100))
def test_each_ruler_is_drawn_once_in_any_part(first: int, last: int) -> None:
    output = run(ROOT / "orders-0", "--from", str(min(first, last)), "--to", str(max(first, last))).output
    for name in ("log start offset", "last stable offset", "high watermark", "log end offset"):
        assert output.count(name) == 1


def test_image_is_whole_the_same_each_time_and_fetches_nothing(tmp_path: Path) -> None:
    image, found = tmp_path / "map.svg", read_map(ROOT / "orders-0", KnownPoints(None, None))
    assert run(ROOT / "orders-0", "--svg", image).exit_code == 0
    assert image.read_text() == svg(found) == svg(found)
    ElementTree.fromstring(image.read_text())
    assert "url(http" not in image.read_text().replace('"', "").replace("'", "")
    assert "log end offset" in image.read_text().replace("&#160;", " ")


def test_json_has_the_partition_each_segment_and_each_batch() -> None:
    told = [json.loads(line) for line in run(ROOT / "orders-0", "--json").stdout.splitlines()]
    found = read_map(ROOT / "orders-0", KnownPoints(None, None))
    assert [entry["kind"] for entry in told].count("segment") == len(found.segments) == told[0]["segments"]
    batches = [entry for entry in told if entry["kind"] == "batch"]
    assert [entry["state"] for entry in batches] == [State(state).name.lower() for state in found.states]
    position = 0
    for entry in batches:
        position = 0 if entry["position"] == 0 else position
        assert entry["position"] == position
        position += entry["size_bytes"]
    (still_open,) = [entry for entry in told if entry["kind"] == "open_transaction"]
    assert still_open["first_offset"] == told[0]["last_stable_offset"]


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(ROOT / "orders-0", tmp_path / "orders-0")
    yield tmp_path / "orders-0"


def last_log(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def mapped(directory: Path, **points: Any) -> PartitionMap:
    return read_map(directory, KnownPoints(points.get("log_start_offset"), points.get("high_watermark")))


def test_bad_batch_is_one_cell_and_the_next_ones_are_read(orders: Path) -> None:
    log = min(orders.glob("*.log"))
    whole = mapped(orders)
    data = bytearray(log.read_bytes())
    sizes = [len(each) for _, each in iter_batches(memoryview(bytes(data)))]
    data[sizes[0] + 70] ^= 1
    log.write_bytes(data)
    result = run(orders)
    assert result.exit_code == 1
    assert rows(result.output)[0] == "." + "!" + "." * (len(sizes) - 2)
    assert f"position {sizes[0]}, offset {whole.base_offsets[1]}: the checksum" in result.output
    assert mapped(orders).base_offsets == whole.base_offsets
    assert mapped(orders).next_offsets == whole.next_offsets


def test_transaction_whose_marker_may_be_lost_is_not_decided_by_a_later_one(orders: Path) -> None:
    """The first COMMIT marker of the last segment is bad: its transaction is shown as open, those after it as ever."""
    log, whole = last_log(orders), mapped(orders)
    first = whole.segments[-1].first_cell
    marker = next(cell for cell in range(first, len(whole.states)) if whole.states[cell] == State.COMMIT_MARKER)
    data = bytearray(log.read_bytes())
    data[whole.positions[marker] + 70] ^= 1
    log.write_bytes(data)
    found = mapped(orders)
    assert [State(state) for state in found.states[first:marker]] == [State.OPEN] * (marker - first)
    assert found.states[marker] == State.DAMAGED
    assert found.states[marker + 1 :] == whole.states[marker + 1 :]
    assert found.last_stable_offset == whole.base_offsets[first]


@given(st.data())
def test_end_that_is_torn_is_damage_only_below_the_high_watermark(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        orders = Path(shutil.copytree(ROOT / "orders-0", Path(directory, "orders-0")))
        whole = mapped(orders)
        log = last_log(orders)
        content = log.read_bytes()
        log.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        end_offset = mapped(orders).log_end_offset
        known = data.draw(st.integers(whole.segments[-1].base_offset, whole.log_end_offset))
        found = mapped(orders, high_watermark=known)
        is_torn = found.states[-1] == State.DAMAGED
        assert found.is_damaged == (is_torn and end_offset < known)
        assert found.log_end_offset == end_offset <= whole.log_end_offset


@pytest.mark.parametrize(
    ("make", "told"),
    [
        ("nothing", "is not a directory"),
        ("orders", "would be named TOPIC-NUMBER"),
        ("empty-0", "it has no .log file"),
        ("broker", "broker/orders-0 is one"),
    ],
)
def test_what_is_no_partition_is_refused(tmp_path: Path, make: str, told: str) -> None:
    if make != "nothing":
        (tmp_path / make).mkdir()
    if make == "orders":
        shutil.copy(last_log(ROOT / "orders-0"), tmp_path / make)
    if make == "broker":
        shutil.copytree(ROOT / "orders-0", tmp_path / make / "orders-0")
    result = run(tmp_path / make)
    assert result.exit_code == 2
    assert told in result.stderr


def test_progress_is_shown_for_a_large_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress counts the bytes read, up to all of them, and never goes back."""
    told: list[int] = []
    found = read_map(ROOT / "orders-0", KnownPoints(None, None), told.append)
    assert told == sorted(told)
    assert told[-1] == found.size_bytes
