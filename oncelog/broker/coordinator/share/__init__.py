"""The share coordinator: keeps the durable state of share-partitions."""
