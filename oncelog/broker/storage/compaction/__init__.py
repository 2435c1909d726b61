"""Log compaction: keeps the newest record of each key, and every record its offset.

Shaped by Kafka's LogCleaner; KIP-58 (lag), KIP-354 (maximum lag), KIP-534 (the delete horizon is stored in the
batch). `offset_map`, `transactions` and `batch_filter` decide what is retained, `cleaner` chooses the log and the time;
`compaction_round` does the work over what each store has of a log (`Rewriting`).
"""
