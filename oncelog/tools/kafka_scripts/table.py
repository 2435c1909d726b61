"""The scripts: what runs each, its options, and those of Kafka's that it does not have.

Owns: the table. A name is Kafka's without `.sh`: Confluent's images have it so, the others with.
"""

from oncelog.tools.kafka_scripts.arguments import Script

_HERE = "oncelog.tools.kafka_scripts"
_COMMON = ("bootstrap-server", "command-config")


def _script(
    run: str,
    flags: str = "",
    values: str = "",
    others: str = "",
    required: tuple[str, ...] = ("bootstrap-server",),
    commands: str = "",
) -> Script:
    return Script(
        f"{_HERE}.{run}",
        frozenset((*flags.split(), "help", "version")),
        frozenset((*values.split(), *_COMMON)),
        required,
        frozenset(others.split()),
        tuple(commands.split()),
    )


def _words(run: str) -> Script:
    return Script(f"{_HERE}.{run}", accepts_anything=True)


SCRIPTS = {
    "kafka-topics": _script(
        "topics:topics",
        "list describe create alter delete if-exists if-not-exists exclude-internal force",
        "topic partitions replication-factor config",
        "at-min-isr-partitions delete-config partition-size-limit-per-response replica-assignment topic-id "
        "topic-id-type topics-with-overrides unavailable-partitions under-min-isr-partitions "
        "under-replicated-partitions",
    ),
    "kafka-configs": _script(
        "configs:configs",
        "describe alter all entity-default broker-defaults force",
        "entity-type entity-name topic broker group add-config delete-config",
        "add-config-file bootstrap-controller broker-logger client client-defaults client-metrics ip ip-defaults user "
        "user-defaults",
    ),
    "kafka-consumer-groups": _script(
        "groups:groups",
        "list describe delete reset-offsets delete-offsets all-groups all-topics members offsets state execute "
        "dry-run to-earliest to-latest to-current",
        "group topic to-offset to-datetime shift-by by-duration timeout",
        "export from-file regex type validate-regex verbose",
    ),
    "kafka-console-producer": _script(
        "console:produce",
        "sync",
        "topic property reader-property producer-property command-property producer.config compression-codec "
        "broker-list request-required-acks timeout request-timeout-ms retry-backoff-ms max-block-ms batch-size "
        "message-send-max-retries",
        "line-reader max-memory-bytes max-partition-memory-bytes metadata-expiry-ms reader-config socket-buffer-size",
        required=("topic",),
    ),
    "kafka-console-consumer": _script(
        "console:consume",
        "from-beginning skip-message-on-error",
        "topic partition offset group max-messages timeout-ms isolation-level property formatter-property "
        "consumer-property command-property consumer.config",
        "enable-systest-events formatter formatter-config include key-deserializer value-deserializer whitelist",
    ),
    "kafka-get-offsets": _script(
        "cluster:get_offsets",
        "exclude-internal-topics",
        "topic time partitions broker-list",
        "topic-partitions",
        required=(),
    ),
    "kafka-cluster": _script(
        "cluster:cluster",
        "include-fenced-brokers",
        "id",
        "bootstrap-controller config",
        commands="cluster-id unregister list-endpoints",
    ),
    "kafka-broker-api-versions": _script("cluster:broker_api_versions", others="bootstrap-controller"),
    "kafka-storage": _words("server:storage"),
    "kafka-server-start": _words("server:start"),
    "cub": _words("cluster:cub"),
    "nc": _words("cluster:nc"),
}
