"""Every metric that is reported: name, kind, labels, what it is, and its name among Kafka's JMX metrics.

Owns: this table. Does not own: the numbers (`metrics`), or how they are found (`collection`).
docs/operate/metrics.md has the table, too, and a test compares them.
"""

from typing import NamedTuple

from oncelog.broker.observability.metrics import BY_ERROR, COUNTERS, GAUGES, HISTOGRAMS

PREFIX = "oncelog"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Family(NamedTuple):
    name: str
    """The name without the prefix, and without the `_total` of a counter."""
    kind: str
    text: str
    jmx: str = ""
    """Kafka's name of the metric; empty if Kafka has none."""
    labels: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        return f"{self.text}. {f'In Kafka: {self.jmx}' if self.jmx else 'Kafka has no such metric'}."


class Distribution(NamedTuple):
    """The value of a histogram."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    """The counts by bucket, one more than there are bounds; not cumulative."""
    sum_s: float

    @property
    def total(self) -> int:
        return sum(self.counts)


class Sample(NamedTuple):
    labels: tuple[str, ...]
    """The values of the family's labels, in order."""
    value: float | Distribution


class Sampled(NamedTuple):
    """A metric and its samples, no two of the same labels."""

    family: Family
    samples: list[Sample]


_SOCKETS = "kafka.server:type=socket-server-metrics,name="
_KEPT: dict[str, tuple[str, str]] = {
    "requests": ("Requests answered", "kafka.network:type=RequestMetrics,name=RequestsPerSec"),
    "request_bytes": ("Bytes received from clients", f"{_SOCKETS}incoming-byte-rate"),
    "response_bytes": ("Bytes sent to clients", f"{_SOCKETS}outgoing-byte-rate"),
    "appends": ("Record batches taken from producers, duplicates included", ""),
    "append_bytes": ("Bytes of these batches", "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"),
    "duplicate_batches": ("Of these batches, retries of earlier ones: answered, and not written again", ""),
    "full_fetches": ("Fetches that named all their partitions", ""),
    "incremental_fetches": ("Fetches that continued a session", ""),
    "fetch_session_evictions": (
        "Fetch sessions that made way for others",
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
    ),
    "flush_rounds": (
        "Rounds of appends made durable together",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    "transactions_started": ("Transactions begun", ""),
    "transactions_committed": ("Transactions committed", ""),
    "transactions_aborted": ("Transactions aborted", ""),
    "connections": ("Connections accepted", f"{_SOCKETS}connection-creation-rate"),
    "connections_refused": ("Connections closed at once: too many from one address", ""),
    "throttled": (
        "Times that a client above a quota was made to wait",
        "kafka.server:type={Produce|Fetch|Request},user=*,client-id=*,throttle-time",
    ),
    "connections_closed_idle": ("Connections closed for their silence", f"{_SOCKETS}connection-close-rate"),
    "connections_closed_slow": ("Connections closed since they held memory and read nothing", ""),
    "connections_closed_expired": (
        "Connections closed since their session had ended, and they had not logged in again",
        f"{_SOCKETS}expired-connections-killed-count",
    ),
    "logins": ("Connections that logged in, by SASL or TLS", f"{_SOCKETS}successful-authentication-total"),
    "logins_failed": ("Logins and TLS handshakes that failed", f"{_SOCKETS}failed-authentication-total"),
    "logins_renewed": (
        "Times that a connection logged in again before its session ended",
        f"{_SOCKETS}successful-reauthentication-total",
    ),
    "renewals_failed": ("Of these attempts, those that failed", f"{_SOCKETS}failed-reauthentication-total"),
    "file_problems": ("Log lines about files that are damaged, missing or unreadable", ""),
    "open_transactions": ("Transactions that are open", ""),
    "decided_transactions": ("Transactions whose outcome is decided, and that wait for markers", ""),
    "open_connections": ("Connections", f"{_SOCKETS}connection-count"),
    "waiting_fetches": (
        "Fetches that wait for records",
        "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch",
    ),
    "fetch_sessions": ("Fetch sessions", "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"),
    "offline_partitions": (
        "Partitions whose files cannot be used",
        "kafka.controller:type=KafkaController,name=OfflinePartitionsCount",
    ),
    "disk_full": ("1 while writes are refused for lack of disk space, otherwise 0", ""),
    "rejected_batches": (
        "Batches that were not appended, by error: out of order, fenced, too large, ...",
        "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec",
    ),
    "producers_fenced": (
        "Requests of fenced producers, by reason: INVALID_PRODUCER_EPOCH is a batch of an older epoch, PRODUCER_FENCED "
        "a request to the coordinator",
        "",
    ),
    "request_seconds": (
        "From a request to its response, waiting included",
        "kafka.network:type=RequestMetrics,name=TotalTimeMs",
    ),
    "round_seconds": ("From the start of a flush round until its records can be read", ""),
    "sync_seconds": (
        "Writing the records of a round to the disk, with the sync, or to PostgreSQL",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    "transaction_seconds": ("From the start of a transaction to its last marker, by result", ""),
}
_LABELS = {
    "rejected_batches": ("error",),
    "producers_fenced": ("reason",),
    "request_seconds": ("api",),
    "transaction_seconds": ("result",),
}


def kept(name: str) -> Family:
    """Return the family of a slot of `Metrics`."""
    if name in COUNTERS or name in BY_ERROR:
        kind = COUNTER
    else:
        kind = GAUGE if name in GAUGES else HISTOGRAM
    return Family(name, kind, *_KEPT[name], _LABELS.get(name, ()))


KEPT = tuple(kept(name) for name in (*COUNTERS, *BY_ERROR, *GAUGES, *HISTOGRAMS))

_PARTITION = ("topic", "partition")
_LAG = "kafka.consumer:type=consumer-fetch-manager-metrics,name=records-lag"
OF_PARTITIONS = (
    Family(
        "partition_log_start_offset", GAUGE, "The first offset", "kafka.log:type=Log,name=LogStartOffset", _PARTITION
    ),
    Family("partition_log_end_offset", GAUGE, "The next offset", "kafka.log:type=Log,name=LogEndOffset", _PARTITION),
    Family(
        "partition_size_bytes", GAUGE, "Bytes of its records on the disk", "kafka.log:type=Log,name=Size", _PARTITION
    ),
    Family(
        "partition_last_stable_offset_lag",
        GAUGE,
        "Offsets that read_committed does not reach yet, because of transactions that are open or wait for markers",
        "kafka.cluster:type=Partition,name=LastStableOffsetLag",
        _PARTITION,
    ),
)
OF_TABLES = (
    Family("tables_bytes", GAUGE, "Size of all tables in PostgreSQL with their indexes, measured once a minute"),
    Family("tables_journal_bytes", GAUGE, "Bytes in the journal that no checkpoint has moved, which a start reads"),
    Family("tables_cache_bytes", GAUGE, "Bytes of chunks that are in memory, too"),
    Family("tables_checkpoints", COUNTER, "Checkpoints written"),
    Family("tables_checkpoint_bytes", COUNTER, "Bytes of records that they moved into chunks"),
    Family("tables_checkpoint_age_seconds", GAUGE, "Since the newest was written"),
    Family("tables_fetches", COUNTER, "Chunks fetched for readers"),
    Family("tables_fetched_bytes", COUNTER, "Bytes of these chunks"),
    Family("tables_repeats", COUNTER, "Statements that were sent again, as their answer was lost"),
    Family("tables_lease_left_seconds", GAUGE, "Until the lease is over, if it is not renewed"),
    Family("outbox_rows", COUNTER, "Rows of SQL transactions that became records (`oncelog.produce`)"),
    Family("outbox_refused_rows", COUNTER, "Rows that were moved to oncelog_outbox_refused"),
    Family("outbox_failed_looks", COUNTER, "Looks for such rows, and moves of them, that failed; the log says why"),
    Family("outbox_left_rows", GAUGE, "Rows that can be neither taken nor moved; the log names them"),
    Family("outbox_wait_seconds", GAUGE, "How long the oldest row waits; 0 if none does"),
)
"""With `oncelog.storage=postgres`; `LogStore.figures` has a number for each."""
OF_NODES = (
    Family("node_leads", GAUGE, "1 while this node leads, 0 while it stands by"),
    Family("node_others", GAUGE, "Other nodes at work on the same tables, as far as this one has seen"),
    Family("node_takeovers", GAUGE, "How often this process has begun to lead"),
    Family("node_since_seconds", GAUGE, "Since it leads, or stands by"),
    Family("node_rounds_behind", GAUGE, "Rounds of the leader that a node which stands by has not looked at"),
)
"""With `oncelog.storage=postgres`; `Standing.figures` has a number for each. How often it has begun to lead is no
counter: it outlives the reporters, and each would send again what those before have sent."""
TRANSACTIONAL_IDS = Family(
    "transactional_ids", GAUGE, "Transactional ids by the state of their transaction", "", ("state",)
)
OLDEST_OPEN = Family("oldest_open_transaction_age_seconds", GAUGE, "Since it began; 0: none is open")
OLDEST_DECIDED = Family(
    "oldest_decided_transaction_age_seconds", GAUGE, "Since its outcome was decided; 0: none waits for markers"
)
GROUPS = Family(
    "groups",
    GAUGE,
    "Groups by type and state",
    "kafka.server:type=group-coordinator-metrics,name=group-count",
    ("type", "state"),
)
OF_COMMITTED = (
    Family(
        "group_lag", GAUGE, "Offsets from the group's committed one to the high watermark", _LAG, ("group", *_PARTITION)
    ),
    Family(
        "group_stable_lag",
        GAUGE,
        "The same to the last stable offset, which is as far as read_committed reads",
        _LAG,
        ("group", *_PARTITION),
    ),
)
_BOUND = ("bound",)
BOUNDS = (
    Family(
        "bound_used",
        GAUGE,
        "How much of a bound is in use",
        "kafka.network:type=SocketServer,name=MemoryPoolUsed",
        _BOUND,
    ),
    Family(
        "bound_limit",
        GAUGE,
        "The bound; -1: there is none",
        "",
        _BOUND,
    ),
)
CERTIFICATE_END = Family(
    "certificate_end_timestamp_seconds",
    GAUGE,
    "When the certificate of a listener with TLS ends, in seconds since 1970",
    "",
    ("listener",),
)
OF_VOLUME = (
    Family("volume_bytes", GAUGE, "Size of the volume of the data directory"),
    Family("volume_free_bytes", GAUGE, "Free space on it"),
)
LEFT_OUT = Family("series_left_out", GAUGE, "Series of a metric beyond oncelog.metrics.max.series", "", ("metric",))

ALL = (
    *KEPT,
    *OF_PARTITIONS,
    *OF_TABLES,
    *OF_NODES,
    TRANSACTIONAL_IDS,
    OLDEST_OPEN,
    OLDEST_DECIDED,
    GROUPS,
    *OF_COMMITTED,
    *BOUNDS,
    *OF_VOLUME,
    CERTIFICATE_END,
    LEFT_OUT,
)
