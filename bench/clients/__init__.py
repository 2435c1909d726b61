"""`make bench WHAT=clients`: this client beside aiokafka, kafka-python and confluent-kafka, on one broker, in one run.

    drivers       what each client calls to produce, consume, and wait for one record; the workloads of these calls
    worker        the process of one client: it is told what to run, and answers with wall and processor time
    parts         the steps of a record in this client, without event loop and sockets
    report        tables and the block of docs/compare/performance.md; speeds are relative to aiokafka's

Turns, medians, tables, pictures and the facts of the machine are those of `bench.harness`.

Each client has a process of its own from the beginning to the end, and all but one of them are idle. What is compared
is processor time first: other programs on the machine change the rate of a client, but hardly what it computes.
"""
