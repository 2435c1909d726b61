"""The files of partitions in one data directory, in Kafka's layout."""
