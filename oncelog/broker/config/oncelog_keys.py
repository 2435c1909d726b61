"""The settings that Kafka does not have; their names start with `oncelog.`.

Owns: a table of `broker.config.broker_keys`. Does not own: our limits of connections and logins, which stand beside
Kafka's (`broker.config.network_keys`, `broker.config.security_keys`).
"""

from oncelog.broker.apis.compatibility import COMPATIBILITIES
from oncelog.broker.config.admin_address import check_otlp_endpoint, parse_http_address
from oncelog.broker.config.config_key import ConfigKey, ConfigType

_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG = ConfigType.INT, ConfigType.LONG

ONCELOG_KEYS = (
    ConfigKey(
        "oncelog.admin.clock.ahead.ms",
        _LONG,
        "0",
        "For tests: how far the wall clock is ahead of the machine's at the start; needs oncelog.admin.listen.",
        0,
    ),
    ConfigKey(
        "oncelog.admin.faults",
        _STRING,
        None,
        "A file with a JSON list of fault rules that are active from the start on; needs oncelog.admin.listen.",
    ),
    ConfigKey(
        "oncelog.admin.listen",
        _STRING,
        None,
        "HOST:PORT, or https://HOST:PORT, for fault injection and a view of open transactions; off when empty.",
        parse=parse_http_address,
    ),
    ConfigKey(
        "oncelog.admin.token.file",
        _STRING,
        None,
        "A file with the token that requests to oncelog.admin.listen must have; beyond loopback there must be one.",
    ),
    ConfigKey(
        "oncelog.compat",
        _STRING,
        "oncelog",
        "kafka: as Apache Kafka even where the protocol allows more. oncelog: more is kept, timeouts are exact.",
        choices=tuple(COMPATIBILITIES),
    ),
    ConfigKey(
        "oncelog.feature.transaction.version",
        _INT,
        "2",
        "transaction.version of a new data directory; afterwards `kafka-features.sh` and UpdateFeatures change it.",
        0,
        2,
    ),
    ConfigKey(
        "oncelog.flush.policy",
        _STRING,
        "fsync",
        "fsync: acknowledged means on disk. os: left to the page cache, as a one-replica Kafka. memory: nothing kept.",
        choices=("fsync", "os", "memory"),
    ),
    ConfigKey(
        "oncelog.flush.loop.appends",
        _INT,
        "64",
        "A flush round of up to this many batches is synced without a thread while syncs take under 2 ms; 0: never.",
        0,
    ),
    ConfigKey(
        "oncelog.http.host.names",
        _LIST,
        "",
        "Names of this machine in the Host header of HTTP requests, beside localhost and advertised.listeners.",
    ),
    ConfigKey(
        "oncelog.journal.file.bytes",
        _INT,
        "16777216",
        "The size of each of the two journal files (`fsync`): with more, segments are synced less often.",
        4096,
    ),
    ConfigKey(
        "oncelog.metrics.listen",
        _STRING,
        None,
        "HOST:PORT, or https://HOST:PORT, of /metrics, /healthz, /readyz, /witness and /share-groups; off when empty.",
        parse=parse_http_address,
    ),
    ConfigKey(
        "oncelog.metrics.token.file",
        _STRING,
        None,
        "A file with the token that requests for /metrics and /witness must have; empty: none.",
    ),
    ConfigKey(
        "oncelog.metrics.max.series",
        _INT,
        "10000",
        "A metric with labels has at most so many series; the rest is counted in oncelog_series_left_out.",
        1,
    ),
    ConfigKey(
        "oncelog.otlp.endpoint",
        _STRING,
        None,
        "URL to which metrics are pushed as OTLP over HTTP (http://HOST:4318/v1/metrics); needs oncelog[otel].",
        parse=check_otlp_endpoint,
    ),
    ConfigKey("oncelog.otlp.interval.ms", _INT, "10000", "How often metrics are pushed as OTLP.", 10),
    ConfigKey(
        "oncelog.postgres.allow.loss",
        _BOOLEAN,
        "false",
        "Start although PostgreSQL has fsync or synchronous_commit off: what was acknowledged may be lost in a crash.",
    ),
    ConfigKey(
        "oncelog.postgres.cache.bytes",
        _LONG,
        "134217728",
        "How much of what is in PostgreSQL is also in memory, half of it what was written last.",
        0,
    ),
    ConfigKey(
        "oncelog.postgres.checkpoint.bytes",
        _LONG,
        "67108864",
        "After so many bytes, or ten seconds, the journal in PostgreSQL moves into chunks; a start reads it again.",
        1,
    ),
    ConfigKey(
        "oncelog.postgres.dsn",
        ConfigType.PASSWORD,
        None,
        "postgresql://USER@HOST:PORT/DATABASE; empty: what PGHOST, PGSERVICE and PostgreSQL's other variables say.",
    ),
    ConfigKey(
        "oncelog.postgres.lease.ms",
        _INT,
        "10000",
        "How long another broker waits for one whose machine was lost before it takes over.",
        3000,
    ),
    ConfigKey(
        "oncelog.postgres.schema",
        _STRING,
        "oncelog",
        "The schema in PostgreSQL; each is a cluster of its own.",
    ),
    ConfigKey(
        "oncelog.read.only",
        _BOOLEAN,
        "false",
        "Serve what is stored, and change nothing: requests that would are refused, the data directory is not written. "
        "An adopted directory is read-only until this was false at a start.",
    ),
    ConfigKey(
        "oncelog.record.validation",
        _STRING,
        "short",
        "short: header, CRC and a walk over lengths. full: every record, as Kafka does.",
        choices=("short", "full"),
    ),
    ConfigKey(
        "oncelog.storage",
        _STRING,
        "local",
        "local: files in the data directory. postgres: tables in PostgreSQL, and no file; needs oncelog[postgres]. "
        "memory: no files, and all data is lost when the process ends.",
        choices=("local", "postgres", "memory"),
    ),
    ConfigKey("oncelog.statsd.address", _STRING, None, "HOST:PORT to which metrics are sent as DogStatsD over UDP."),
    ConfigKey("oncelog.statsd.interval.ms", _INT, "10000", "How often metrics are sent as DogStatsD.", 10),
    ConfigKey(
        "oncelog.witness.enable",
        _BOOLEAN,
        "false",
        "Watch for mistakes of clients; `oncelog witness` shows them, through oncelog.metrics.listen.",
    ),
)
