"""`make proof WHAT=spark`: seeded faults on four sinks of Spark; what each sink lost, doubled and refused, as a table.

A **seed** is one query, one sink and one fault. The query runs until the fault ends it, or through the fault; it is
started again from its checkpoint until it has processed everything; then its topic is read at read_committed and
compared row by row with what went in (`page`). The same fault meets both doors of ours, Spark's own Kafka sink, and a
plain foreachBatch with an idempotent producer (`scene`).

    session   one warm session, some two seconds a seed; a driver that dies is dropped as kill -9 drops it   (`faults`)
    kills     processes that are really killed: the driver's Python, its JVM, or both      (`kills`, `driver`)
    cluster   a master and two workers, speculation; Python workers, executors and workers are killed   (`cluster`)

`table` writes docs/spark/spark-proof.md from the file of results, which has a line for every seed, and from nothing
else. Nothing is thrown out: a seed that raises what its fault does not explain ends the run.
"""
