#!/bin/sh
# `docker run IMAGE topic list` is oncelog's command; any program runs as it is, as in the images of Kafka:
# `command: kafka-topics.sh --create ...`, `command: bash -c "..."`.
set -eu
# A volume where bitnami/kafka keeps its data is where this broker keeps its own.
if [ -z "${KAFKA_LOG_DIRS:-}${KAFKA_CFG_LOG_DIRS:-}" ] && grep -Eqs ' /bitnami(/kafka)? ' /proc/mounts; then
    export KAFKA_LOG_DIRS=/bitnami/kafka/data
fi
[ $# -gt 0 ] || set -- /etc/kafka/docker/run
if command -v "$1" >/dev/null 2>&1; then
    exec "$@"
fi
exec oncelog "$@"
