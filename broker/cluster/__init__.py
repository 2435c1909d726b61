"""What the cluster is: topics, their durable description, features, who leads what."""
