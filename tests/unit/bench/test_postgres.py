"""`make bench WHAT=postgres` reports what was measured: what is counted, its tables. No broker runs."""

import os

from bench.page import PAGE
from bench.postgres import database
from bench.postgres.__main__ import COMMAND, LOAD_COMMAND, LOAD_PAGE, parsed
from bench.postgres.load import Look
from bench.postgres.load import text as of_load
from bench.postgres.report import text
from bench.postgres.run import FILES, POSTGRES, Sample
from bench.postgres.workloads import WORKLOADS
from tools.markers import commands_of


def cells(table: str, title: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def sample(value: float, *, wal_bytes: int = 0, table_bytes: int = 0) -> Sample:
    return Sample(value, None, 1.5, 2.5, wal_bytes, table_bytes)


def test_speeds_are_relative_to_files_and_bytes_to_what_was_produced() -> None:
    (batches,) = [each for each in WORKLOADS if each.key == "produce-1k"]
    produced = batches.count * 1_000
    samples = {
        batches.key: {
            FILES: [sample(200.0), sample(100.0), sample(300.0)],
            POSTGRES: [sample(100.0, wal_bytes=3 * produced, table_bytes=produced)],
        }
    }
    shown = text(samples, [batches], 1, ["a machine"])
    speeds, of_processors, of_bytes = shown.split("\n\n")[2::2]
    assert cells(speeds, batches.title) == ["200 (100–300)", "100, 0.500 ×"]
    assert cells(of_processors, batches.title) == ["1.50", "1.50", "2.50"]
    assert cells(of_bytes, batches.title) == ["3.00", "1.00"]


def test_a_look_at_the_tables_sums_the_journal_apart_from_the_chunks() -> None:
    tables = {
        "oncelog_journal_0": (2_000_000, 1, 2, 0),
        "oncelog_journal_1": (3_000_000, 1, 3, 0),
        "oncelog_chunk": (40_000_000, 40, 5, 1),
        "oncelog_log": (500_000, 3, 0, 2),
    }
    shown = of_load([Look(90.0, 100.0, 250.0, tables)], ["a machine"])
    assert cells(shown, "1.5") == ["100.0", "250.0", "5.0", "40.0", "0.5", "10", "3"]


def test_both_pages_have_a_place_for_what_is_measured() -> None:
    assert COMMAND in commands_of(PAGE.read_text(encoding="utf-8"))
    assert LOAD_COMMAND in commands_of(LOAD_PAGE.read_text(encoding="utf-8"))


def test_a_process_that_has_ended_has_used_nothing_more() -> None:
    assert len(database.stat(os.getpid())) > 15
    assert database.stat(2**22 + 1) == []


def test_a_run_of_a_part_is_not_a_whole_one() -> None:
    assert parsed([]).is_whole
    assert not parsed(["--only", "tail"]).is_whole and not parsed(["--quick"]).is_whole
