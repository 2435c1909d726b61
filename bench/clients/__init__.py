"""`make bench-clients`: this client beside aiokafka, kafka-python and confluent-kafka, on one broker, in one run.

    drivers       a class for each client: how it produces, consumes, and waits for one record
    worker        the process of one client: it is told what to run, and answers with wall and processor time
    __main__      rounds in an order that rotates, tables and the block of docs/compare/performance.md

Each client has a process of its own from the beginning to the end, and all but one of them are idle. What is compared
is processor time first: other programs on the machine change the rate of a client, but hardly what it computes.
"""
