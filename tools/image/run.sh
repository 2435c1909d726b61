#!/bin/sh
# Starts the broker, under the names that the images of Kafka have for this.
# As in apache/kafka's image, a file that is mounted here takes the place of the defaults.
config=/mnt/shared/config/server.properties
[ -f "$config" ] || config=/etc/kafka/server.properties
exec oncelog serve --config "$config" "$@"
