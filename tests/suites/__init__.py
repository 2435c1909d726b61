"""The tests that other projects have of their own, run against oncelog, counted: `python -m tests.suites`.

Two collections of suites, a page each. `make proof WHAT=suites` runs those of clients, each on a broker that is started
for it; `make kafka-tests` runs Apache Kafka's own, whose stand-in for Kafka's test cluster starts the brokers. Either
way a suite is a declaration: which tests it has, what runs them, how their output is read.

    suite     the types: a suite, the outcome of a test, a broker, a collection
    clients   franz-go, kafka-go, Sarama, librdkafka, kafka-python; `fetched` says where they are and how they are built
    kafka     Apache Kafka, by the classes that start a cluster; `pom.xml` is what they need, `java` the stand-in
    outputs   reads what the runners of tests print
    brokers   oncelog over files, PostgreSQL or memory, or Apache Kafka with the same settings
    take_over two nodes at one address that take over from each other while a suite runs
    run       runs one suite, and continues behind a test that ends or hangs its process
    results   what a run found, a line of JSON for each suite, broker and storage
    reasons   why a test does not pass, from `reasons.toml`
    page      the results beside the reasons

A test that fails and has no reason is a fault of oncelog until it has one. A chosen part of Kafka's tests is held to
the recorded results by `make interop`.
"""
