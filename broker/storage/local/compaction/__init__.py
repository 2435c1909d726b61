"""Log compaction: keeps the newest record of each key, and every offset where it was.

Shaped by Kafka's LogCleaner; KIP-58 (lag), KIP-354 (greatest lag), KIP-534 (tombstones and markers keep their horizon
in the batch). `offset_map` and `batch_filter` decide, `round` reads and writes, `swap` puts the result in place so that
a crash at any step leaves either the old segments or the new one, `cleaner` chooses the log and the moment.
"""
