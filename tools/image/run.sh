#!/bin/sh
# Starts the broker, under the names that the images of Kafka have for this.
exec oncelog serve --config /etc/kafka/server.properties "$@"
