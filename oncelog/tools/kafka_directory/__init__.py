"""A log directory of Apache Kafka: what `oncelog adopt` reads of it, and `oncelog graduate` writes.

The files of partitions are the same on both sides. What differs is the metadata: Kafka keeps it in the log of its
quorum, which `metadata` replays, and which begins with the records of a file that `bootstrap` encodes. `properties` is
the identity of a directory, `meta.properties`, in Java's syntax. `taking` is what both commands do with files, with a
directory that was recovered, and in their tables.

Neither command knows the other; both raise `NotPossible`.
"""


class NotPossible(Exception):
    """Raised if a directory can become neither; the message says why, and what to do."""
