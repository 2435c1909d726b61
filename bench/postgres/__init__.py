"""What it costs to keep records in PostgreSQL: `make bench WHAT=postgres`.

The workloads of `bench.peers` that matter for that, by the same client, on two brokers of this checkout in turns: one
over files that are synced, one over a PostgreSQL of its own on the same disk. Counted are the processor time of the
broker and of all processes of PostgreSQL, and the bytes of the write-ahead log and of the tables. What is put off until
a checkpoint is part of what a workload costs: the counts end when the records have moved into chunks.

`--load` instead keeps one broker busy for some minutes, with retention, and looks at the tables meanwhile.
"""
