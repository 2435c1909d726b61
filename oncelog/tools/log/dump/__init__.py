"""`oncelog log dump`: files as Apache Kafka's tool prints them."""
