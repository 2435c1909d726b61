"""Apache Kafka's own tests, run against oncelog.

Kafka's test classes come compiled from Maven Central; nothing of them is here. `java` has what stands where Kafka's
test cluster does, earlier in the class path: it starts one `oncelog serve` for each cluster that a test asks for. What
a test wants of the broker's JVM is out of reach, and says so; several brokers and replicas are made one, and counted.

- `classes` finds the test classes that start a cluster, and the class path.
- `launch` runs one class in a JVM of its own, and reads what became of each test.
- `results` has the reasons why a test cannot pass, and the sums.
- `page` writes docs/compare/kafkas-own-tests.md.

Classes that are published nowhere can be compiled elsewhere and named in ONCELOG_KAFKA_TEST_CLASSES.
"""
