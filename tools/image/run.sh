#!/bin/sh
# Starts the broker, under the names that the images of Kafka have for this.
# As in apache/kafka's image, a file that is mounted here takes the place of the defaults, but not that of the data.
config=/mnt/shared/config/server.properties
if [ ! -f "$config" ]; then
    config=/etc/kafka/server.properties
elif [ -z "${KAFKA_LOG_DIRS:-}${KAFKA_CFG_LOG_DIRS:-}" ] && ! grep -Eq '^ *log\.dirs? *[=:]' "$config"; then
    export KAFKA_LOG_DIRS=/var/lib/kafka/data
fi
exec oncelog serve --config "$config" "$@"
