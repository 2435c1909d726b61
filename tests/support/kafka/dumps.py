"""Files of partitions, and what Apache Kafka 4.3's dump tool printed for them: recorded once, held against ever since.

`tests/interop/test_kafka_log_dump.py` makes the files, asks Kafka, and with ONCELOG_RECORD=1 keeps both here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent / "golden" / "log_dump"
"""The files, by partition; beside them `CASE.txt`, what Kafka printed."""

_DATA = "orders-0"
# What is asked of which partitions: options, then directories whose files are all named.
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "batches": ((), (_DATA, "stamped-0", "compacted-0")),
    "records": (("--deep-iteration",), (_DATA, "stamped-0", "compacted-0")),
    "contents": (("--print-data-log",), (_DATA, "stamped-0", "compacted-0")),
    "contents-alone": (("--print-data-log", "--skip-record-metadata"), (_DATA, "compacted-0")),
    "numbers": (("--key-decoder-class", "org.apache.kafka.tools.api.LongDecoder"), ("numbers-0",)),
    "first-bytes": (("--deep-iteration", "--max-bytes", "500"), (_DATA,)),
    "sanity": (("--index-sanity-check",), (_DATA, "compacted-0")),
    "verified": (("--verify-index-only",), (_DATA, "compacted-0")),
    "transactions": (("--transaction-log-decoder",), ("__transaction_state-0",)),
    "offsets": (("--offsets-decoder",), ("__consumer_offsets-0",)),
    "offsets-alone": (("--offsets-decoder", "--skip-record-metadata"), ("__consumer_offsets-0",)),
    "metadata": (("--cluster-metadata-decoder",), ("__cluster_metadata-0",)),
    "damaged": (("--print-data-log",), ("damaged-0",)),
}
PARTITIONS = sorted({partition for _, partitions in CASES.values() for partition in partitions})
_KAFKAS = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
_KINDS = {
    "position": "offset_index_entry",
    "lastStableOffset": "aborted_transaction",
    "currentTxnFirstOffset": "producer",
    "offset": "time_index_entry",
}
"""The kinds of entries that have only numbers, by a name that each has."""
_NAMES = {
    "count": "record_count",
    "size": "size_bytes",
    "compresscodec": "compression",
    "isvalid": "is_valid",
    "keySize": "key_bytes",
    "valueSize": "value_bytes",
    "endTxnMarker": "control_type",
    "payload": "value",
}
_NOTES = {" is empty.": "empty", " passed sanity check.": "sane"}
_FINDINGS = (
    "index_mismatch",
    "offset_gap",
    "offset_not_found",
    "problem",
    "timestamp_mismatch",
    "timestamp_out_of_order",
)
_METADATA = r"(?P<metadata> offset: .*? headerKeys: \[(?P<headers>.*?)\])?"
_RECORD = re.compile(rf"\|{_METADATA}(?P<control> (endTxnMarker|controlType|Snapshot).*)?")
_CONTENT = re.compile(r"( key: (?P<key>.*?))?( payload: (?P<payload>.*))?", re.DOTALL)
_REPLACED = re.compile("\ufffd+")


def arguments(case: str, root: Path) -> list[str]:
    """The command line, its files relative to `root`."""
    options, partitions = CASES[case]
    files = [path for partition in partitions for path in sorted((root / partition).iterdir())]
    named = ",".join(str(path.relative_to(root)) for path in files if path.suffix in _KAFKAS)
    return [*options, "--files", named]


def rows_of_kafka(text: str) -> Iterator[dict[str, Any]]:
    """Yield what Kafka's tool has printed as the objects of `oncelog log dump --json`."""
    file = ""
    for line in text.split("\n")[:-1]:
        note = next((kind for end, kind in _NOTES.items() if line.endswith(end)), None)
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
        elif note is not None:
            yield {"file": file, "kind": note}
        elif line.startswith("baseOffset: "):
            yield {"file": file, "kind": "batch"} | _pairs(line)
        elif line.startswith("|"):
            yield {"file": file, "kind": "record"} | _record(line)
        elif line and not line.startswith(("Log starting", "Snapshot end", "KRaft bootstrap", "Found ")):
            yield {"file": file, "kind": next(kind for name, kind in _KINDS.items() if name in line)} | _pairs(line)


def rows_of_ours(text: str, *, with_offsets: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the same of ours, without problems and exact bytes. Where Kafka shows the content of records alone, it has
    no offsets, and no record without content."""
    for line in text.splitlines():
        row = {name: _shown(name, value) for name, value in json.loads(line).items() if value is not None}
        if row["kind"] == "record":
            hidden = () if with_offsets else ("offset",)
            row = {name: value for name, value in row.items() if not name.endswith("_base64") and name not in hidden}
        if row["kind"] not in _FINDINGS and (len(row) > 2 or row["kind"] in _NOTES.values()):
            yield row


def _record(line: str) -> dict[str, Any]:
    record = _RECORD.match(line)
    assert record is not None
    row = _pairs(record["metadata"] or "") | _control(record["control"] or "")
    if record["metadata"]:
        row["header_keys"] = [name for name in record["headers"].split(",") if name]
    if "control_type" not in row:
        content = _CONTENT.fullmatch(line[record.end() :])
        assert content is not None, line
        row |= {_NAMES.get(name, name): _content(value) for name, value in content.groupdict().items() if value}
    return row


def _control(text: str) -> dict[str, Any]:
    if text.startswith(" Snapshot"):
        return {"control_type": re.sub("(?<=[a-z])(?=[A-Z])", "_", text.split()[0]).upper()}
    row = _pairs(text)
    return row if "control_type" not in row else row | {"control_type": row["control_type"].partition("(")[0]}


def _pairs(text: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in re.findall(r"(\w+): ([^\s\[]+(?:\[\d+\])?)", text):
        if name in ("CreateTime", "LogAppendTime"):
            is_batch = text.startswith("baseOffset")
            row |= {"timestamp_type": name, "max_timestamp": int(value)} if is_batch else {"timestamp": int(value)}
        elif value != "OptionalLong.empty":
            snake = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
            row[_NAMES.get(name, snake)] = _number(value)
    return row


def _number(value: str) -> Any:
    words = {"true": True, "false": False}
    digits = value.removeprefix("OptionalLong[").removesuffix("]")
    return int(digits) if digits.lstrip("-").isdecimal() else words.get(value, value)


def _content(text: str) -> Any:
    return json.loads(text) if text.startswith(('{"type"', '{"version"')) else _shown("value", text)


def _shown(name: str, value: Any) -> Any:
    """Return contents as text; Java and Python put different numbers of replacements for bytes that are none."""
    if name not in ("key", "value") or isinstance(value, dict):
        return value
    return _REPLACED.sub("\ufffd", str(value))
