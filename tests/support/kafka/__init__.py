"""Apache Kafka itself, its classes behind a pipe, and what it and its tools have written."""
