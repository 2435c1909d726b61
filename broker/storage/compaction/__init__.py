"""Log compaction: keeps the newest record of each key, and every offset where it was.

Shaped by Kafka's LogCleaner; KIP-58 (lag), KIP-354 (greatest lag), KIP-534 (tombstones and markers keep their horizon
in the batch). `offset_map`, `transactions` and `batch_filter` decide what remains, `cleaner` chooses the log and the
moment; how a store reads its batches and writes what remains is the store's own (`CompactionRound`).
"""
