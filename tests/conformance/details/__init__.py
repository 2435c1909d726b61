"""What clients lean on in a Kafka broker, detail by detail: one test for each, named by its number."""
