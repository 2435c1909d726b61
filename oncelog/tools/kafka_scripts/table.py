"""The scripts: what runs each, and its options.

Owns: the table. A name is Kafka's without `.sh`: Confluent's images have it so, the others with.
"""

from oncelog.tools.kafka_scripts.arguments import Script

_HERE = "oncelog.tools.kafka_scripts"
_COMMON = ("bootstrap-server", "command-config")


def _script(
    run: str, flags: str = "", values: str = "", required: tuple[str, ...] = ("bootstrap-server",), commands: str = ""
) -> Script:
    return Script(
        f"{_HERE}.{run}",
        frozenset((*flags.split(), "help", "version")),
        frozenset((*values.split(), *_COMMON)),
        required,
        tuple(commands.split()),
    )


def _words(run: str) -> Script:
    return Script(f"{_HERE}.{run}", accepts_anything=True)


SCRIPTS = {
    "kafka-topics": _script(
        "topics:topics",
        "list describe create alter delete if-exists if-not-exists exclude-internal force",
        "topic partitions replication-factor config",
    ),
    "kafka-configs": _script(
        "configs:configs",
        "describe alter all entity-default broker-defaults force",
        "entity-type entity-name topic broker group add-config delete-config",
    ),
    "kafka-consumer-groups": _script(
        "groups:groups",
        "list describe delete reset-offsets delete-offsets all-groups all-topics members offsets state execute "
        "dry-run to-earliest to-latest to-current",
        "group topic to-offset to-datetime shift-by by-duration timeout",
    ),
    "kafka-console-producer": _script(
        "console:produce",
        "sync",
        "topic property reader-property producer-property command-property producer.config compression-codec "
        "broker-list request-required-acks timeout request-timeout-ms retry-backoff-ms max-block-ms batch-size "
        "message-send-max-retries",
        required=("topic",),
    ),
    "kafka-console-consumer": _script(
        "console:consume",
        "from-beginning skip-message-on-error",
        "topic partition offset group max-messages timeout-ms isolation-level property formatter-property "
        "consumer-property command-property consumer.config",
    ),
    "kafka-get-offsets": _script(
        "cluster:get_offsets", "exclude-internal-topics", "topic time partitions broker-list", required=()
    ),
    "kafka-cluster": _script(
        "cluster:cluster", "include-fenced-brokers", "id", commands="cluster-id unregister list-endpoints"
    ),
    "kafka-broker-api-versions": _script("cluster:broker_api_versions"),
    "kafka-storage": _words("server:storage"),
    "kafka-server-start": _words("server:start"),
    "cub": _words("cluster:cub"),
    "nc": _words("cluster:nc"),
}
