#!/bin/sh
# Asks the first listener for clients, wherever the variables or a mounted file have put it:
# PLAINTEXT://kafka:29092,CONTROLLER://:9093. Without listeners there is one for each advertised address, on its port.
first() { printf '%s' "$1" | tr ',' '\n' | grep -v '^ *CONTROLLER:' | sed -n '1s#.*://##p'; }
mounted=$(sed -n 's/^listeners *= *//p' /mnt/shared/config/server.properties 2>/dev/null)
address=$(first "${KAFKA_LISTENERS:-${KAFKA_CFG_LISTENERS:-$mounted}}")
[ -n "$address" ] || address=:$(first "${KAFKA_ADVERTISED_LISTENERS:-${KAFKA_CFG_ADVERTISED_LISTENERS:-:9092}}" | sed 's/.*://')
host=${address%:*}
[ "${host:-0.0.0.0}" != 0.0.0.0 ] || host=127.0.0.1
port=${address##*:}
exec oncelog health --bootstrap "$host:${port:-9092}"
