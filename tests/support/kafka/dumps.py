"""Files of partitions, and what Apache Kafka 4.3's dump tool printed for them: recorded once, held against ever since.

`tests/interop/test_kafka_log_dump.py` makes the files, asks Kafka, and with ONCELOG_RECORD=1 keeps both here.
"""

from pathlib import Path

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


def arguments(case: str, root: Path) -> list[str]:
    """The command line, its files relative to `root`."""
    options, partitions = CASES[case]
    files = [path for partition in partitions for path in sorted((root / partition).iterdir())]
    named = ",".join(str(path.relative_to(root)) for path in files if path.suffix in _KAFKAS)
    return [*options, "--files", named]
