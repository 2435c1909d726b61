"""`oncelog graduate`: a data directory becomes one of Apache Kafka.

The files of partitions are Kafka's already: segments, indexes, producer snapshots, `partition.metadata`, checkpoints.
What differs is the metadata: Kafka keeps it in a log of its own quorum, whose first leader begins it with the records
of a file, `bootstrap.checkpoint`. So the state of our metadata log is written there as Kafka's records, and beside it
what `kafka-storage.sh format` writes (`meta.properties`) and what Kafka is started with (`server.properties`).

One way that data flows: `source` recovers the directory and closes it cleanly, which puts everything that only the
journal has into segments; `oncelog.tools.kafka_directory` and `settings` turn its state into the contents of the small
files; `files` decides what becomes of each file; `steps` does it, in steps that can be repeated.

Invariant: at any moment at most one of the two brokers can start. `oncelog serve` refuses a directory with one of our
marks, Kafka one without `meta.properties`: the mark is written before, `meta.properties` appears last.
"""
