"""What the lives of a log in simulation are made of: which logs, which steps, and how often each.

Does not own: what a step does (`log_world`).
"""

from dataclasses import dataclass, replace

from oncelog.broker.log.log_config import LogConfig

SMALL = LogConfig(segment_bytes=900, index_interval_bytes=150, delete_retention_ms=500, min_cleanable_dirty_ratio=0.01)
COMPACTED = replace(SMALL, cleanup_policy="compact", delete_retention_ms=1_500)


@dataclass(frozen=True)
class Mix:
    """The settings, kinds of steps and chances of a life."""

    configs: tuple[LogConfig, ...]
    weights: dict[str, int]
    """The weight of each kind of step, by the name of its function."""
    delays_ms: tuple[int, ...]
    """The delays, one of which passes at each step."""
    cleaner_memory_bytes: tuple[int, ...] = (1_000_000,)
    retires: float = 0
    """How likely a batch is the last one of a producer: all that is known of it then is what compaction leaves."""
    partitions: int | None = None
    """How many of the configs are at work in one life; all of them."""
    has_frames: bool = False
    """Whether batches come in any codec and in several frames, some with fewer records than they announce."""


EVERYTHING = Mix(
    (SMALL, replace(SMALL, retention_bytes=2_000, retention_ms=1_500), COMPACTED),
    {
        "append": 30,
        "append_ahead": 10,
        "end_transaction": 8,
        "retry": 6,
        "stale": 3,
        "turn": 30,
        "compact": 4,
        "retain": 2,
        "delete_records": 2,
        "look": 3,
        "no_room": 1,
        "fail_syncs": 1,
        "no_descriptors": 1,
        "checkpoint": 3,
        "no_room_for_the_journal": 1,
        "stop": 3,
    },
    (0, 1, 40),
)
COMPACTION = Mix(
    (
        COMPACTED,
        replace(COMPACTED, min_compaction_lag_ms=400),
        replace(COMPACTED, cleanup_policy="compact,delete", retention_ms=3_000),
    ),
    {
        "append": 40,
        "end_transaction": 20,
        "retry": 1,
        "turn": 20,
        "compact": 8,
        "cut_compaction": 6,
        "retain": 1,
        "delete_records": 1,
        "no_room": 1,
        "stop": 4,
    },
    (0, 0, 1, 5, 40, 400),
    # For all keys of a life, and for those of one batch.
    (1_000_000, 1),
    0.1,
    1,
)
BACKUPS = replace(
    EVERYTHING,
    # No older copies of the journal: an image has none.
    weights={name: weight for name, weight in EVERYTHING.weights.items() if name != "checkpoint"} | {"back_up": 10},
)
FRAMES = replace(
    EVERYTHING,
    configs=(
        replace(SMALL, compression_type="lz4"),
        replace(SMALL, compression_type="uncompressed"),
        replace(SMALL, record_validation="full"),
        replace(COMPACTED, compression_type="gzip"),
        COMPACTED,
    ),
    has_frames=True,
)
"""Topics on which the broker opens what it is sent."""
