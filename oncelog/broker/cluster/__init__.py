"""The state of the cluster: topics and their durable metadata, features, leadership."""
