"""The settings of one partition's log, parsed.

Owns: the values and Kafka's defaults for them. Does not own: their source (topic config over broker config).
Field names are the topic config names with `_` for `.`; `producer_id_expiration_ms` is the broker's own setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from oncelog.protocol.checksum import crc32c

INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    cleanup_policy: str = "delete"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    record_validation: str = "short"
    # What appends ask for each time, derived once.
    earliest_roll_ms: int = field(init=False)
    latest_roll_ms: int = field(init=False)
    is_compacted: bool = field(init=False)
    is_log_append_time: bool = field(init=False)
    checks_every_record: bool = field(init=False)
    """Whether every record is checked: by `oncelog.record.validation=full`, or because each needs a key."""

    def __post_init__(self) -> None:
        is_compacted = "compact" in self.cleanup_policy
        # A segment that is never completed is never compacted (KIP-354).
        latest_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_compacted else self.segment_ms
        derived: dict[str, object] = {
            "latest_roll_ms": latest_ms,
            "earliest_roll_ms": latest_ms - min(self.segment_jitter_ms, latest_ms),
            "is_compacted": is_compacted,
            "is_log_append_time": self.message_timestamp_type == "LogAppendTime",
            "checks_every_record": is_compacted or self.record_validation == "full",
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def roll_after_ms(self, segment: str) -> int:
        """Sooner by up to `segment.jitter.ms`, derived from its name: partitions created together roll apart."""
        jitter_ms = self.latest_roll_ms - self.earliest_roll_ms
        return self.latest_roll_ms - (crc32c(segment.encode()) % jitter_ms if jitter_ms > 0 else 0)

    @property
    def compression_levels(self) -> Mapping[int, int]:
        """The levels by codec; gzip's -1 is the library's own default."""
        return {1: self.compression_gzip_level, 3: self.compression_lz4_level, 4: self.compression_zstd_level}

    @property
    def is_deleting(self) -> bool:
        """Old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy


def log_config_of(settings: Mapping[str, str]) -> LogConfig:
    """Parses topic configs by Kafka's names, already validated; unknown names are skipped."""
    values: dict[str, str | int | float] = {}
    for setting in fields(LogConfig):
        text = settings.get(
            "oncelog.record.validation" if setting.name == "record_validation" else _dotted(setting.name)
        )
        if text is None or not setting.init:
            continue
        if setting.type is int:
            values[setting.name] = int(text)
        elif setting.type is float:
            values[setting.name] = float(text)
        else:
            values[setting.name] = text.strip()
    return LogConfig(**values)  # type: ignore[arg-type]


def _dotted(name: str) -> str:
    return name.replace("_", ".")
