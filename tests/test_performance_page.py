"""The table at the head of docs/compare/performance.md is what `make bench` wrote below it, in two digits; README.md
takes its figures from there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
_PAGE = (ROOT / "docs" / "compare" / "performance.md").read_text(encoding="utf-8")
AT_A_GLANCE = _PAGE.partition("\n## At a glance\n")[2].partition("\n## ")[0]
MEASURED = _PAGE.partition("<!-- begin: make bench -->")[2].partition("Processor seconds")[0]
COLUMNS = ("compiled, fsync", "oncelog, fsync", "compiled, os")
# A row at a glance, and the measured rows that it is made of.
ROWS = {
    "consume-process-produce, 100 messages a transaction": ["consume-process-produce, 100 a transaction, messages/s"],
    "16 transactional producers": ["16 producers, one-record transactions, txn/s"],
    "transaction of 100 records over 10 partitions, p50": ["transaction of 100 records over 10 partitions, p50, ms"],
    "consume, read_committed": ["consume 1 kB, read_committed, MB/s"],
    "one record a batch, five in flight": ["one record a batch, idempotent, 5 in flight, k/s"],
    "transaction of one record, p50 and p99": [f"transaction of one record, {part}, ms" for part in ("p50", "p99")],
    "produce 1 kB in batches": ["produce 1 kB, batched, MB/s"],
    "produce one record and wait": ["produce 100 B and wait, p50, ms"],
}


def cells(table: str, row: str) -> list[str]:
    (line,) = re.findall(rf"^\| {re.escape(row)} *\|(.*)\|$", table, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def two_digits(number: str) -> str:
    return f"{float(number):#.2g}".rstrip(".")


@pytest.mark.parametrize("row", ROWS)
def test_a_row_at_a_glance_is_what_was_measured(row: str) -> None:
    columns = cells(MEASURED, "workload")
    speeds = [[re.findall(r"([\d.]+) ×", cell) for cell in cells(MEASURED, part)] for part in ROWS[row]]
    expected = [", ".join(f"{two_digits(speed[columns.index(column)][0])} ×" for speed in speeds) for column in COLUMNS]
    assert cells(AT_A_GLANCE, row) == expected


def test_the_table_at_a_glance_has_these_rows() -> None:
    assert set(re.findall(r"^\| (\S[^|]*) \| [\d.]+ ×", AT_A_GLANCE, re.MULTILINE)) == set(ROWS)


def test_the_figures_of_the_readme_are_those_of_the_first_column() -> None:
    speed = README.partition("\nSpeed beside Apache Kafka")[2].partition("\n\n")[0]
    named = re.findall(r"([\w ,-]+?) ([\d.]+ ×)", " ".join(speed.partition(":")[2].split()))
    table = {row.partition(",")[0]: cells(AT_A_GLANCE, row)[0] for row in ROWS}
    assert len(named) > 3
    assert {name.strip(" ,"): figure for name, figure in named}.items() <= table.items()
