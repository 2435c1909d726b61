"""What people call Kafka's scripts with, in the order of one life of a cluster, and what is printed: a transcript.

Owns: the calls, and how a transcript is written, without what differs from run to run. The file of the name GOLDEN is
that of Kafka's own tools over our daemon; `python -m tests.support.kafka.scripts BOOTSTRAP` writes it again.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.foreign.interop import java_command
from tests.support.patience import PATIENCE_S

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_scripts.txt"
JAVA_CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
}
_SHOWN = "--formatter-property print.key=true --formatter-property print.partition=true --formatter-property "
_KEYED = "--reader-property parse.key=true --reader-property key.separator=:"


@dataclass(frozen=True, slots=True)
class Call:
    line: str
    feed: str = ""
    """Standard input."""


CALLS = (
    Call("kafka-topics --list"),
    Call("kafka-topics --create --topic orders --partitions 2 --replication-factor 1"),
    Call("kafka-topics --create --topic orders"),
    Call("kafka-topics --create --if-not-exists --topic orders --partitions 7"),
    Call("kafka-topics --create --topic a.b_c --config retention.ms=1000 --config cleanup.policy=compact"),
    Call("kafka-topics --create --topic far --replication-factor 3"),
    Call("kafka-topics --create --topic=far --config nonsense=1"),
    Call("kafka-topics --list"),
    Call("kafka-topics --list --topic or.*"),
    Call("kafka-topics --list --topic missing"),
    Call("kafka-topics --describe"),
    Call("kafka-topics --describe --topic missing"),
    Call("kafka-topics --alter --topic orders --partitions 3"),
    Call("kafka-topics --alter --topic orders --partitions 1"),
    Call("kafka-topics --delete --topic missing"),
    Call("kafka-topics --delete --if-exists --topic missing"),
    Call("kafka-topics --delete --topic a.b_c"),
    Call("kafka-console-producer --topic orders " + _KEYED, "k1:v1\nk2:v2\nk3:v3\n"),
    Call("kafka-console-producer --topic lines --property parse.key=false", "one\ntwo\n"),
    Call("kafka-console-producer --topic orders " + _KEYED, "no separator\n"),
    Call(
        "kafka-console-producer --topic orders --reader-property parse.headers=true --reader-property null.marker=NULL "
        + _KEYED,
        "h:1,g:2\tk4:NULL\nNULL\tk5:v5\n",
    ),
    Call(
        "kafka-console-consumer --topic orders --from-beginning --max-messages 5 --group readers "
        + _SHOWN
        + "print.headers=true --formatter-property key.separator=="
    ),
    Call("kafka-consumer-groups --list"),
    Call("kafka-consumer-groups --list --state"),
    Call("kafka-consumer-groups --describe --group readers"),
    Call("kafka-consumer-groups --describe --group readers --state"),
    Call("kafka-consumer-groups --describe --group readers --members"),
    Call("kafka-consumer-groups --describe --group missing"),
    Call("kafka-consumer-groups --reset-offsets --group readers --topic orders --to-earliest --dry-run"),
    Call("kafka-consumer-groups --reset-offsets --group readers --topic orders:1 --shift-by -1 --execute"),
    Call("kafka-consumer-groups --reset-offsets --group readers --all-topics --to-offset 1 --execute"),
    Call("kafka-consumer-groups --reset-offsets --group readers --all-topics --by-duration PT1H --execute"),
    Call("kafka-consumer-groups --describe --all-groups"),
    Call("kafka-consumer-groups --delete-offsets --group readers --topic orders"),
    Call("kafka-consumer-groups --delete --group missing"),
    Call("kafka-consumer-groups --delete --group readers"),
    Call("kafka-configs --describe --topic orders"),
    Call("kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=5000"),
    Call("kafka-configs --alter --topic orders --add-config cleanup.policy=[compact,delete],segment.ms=60000"),
    Call("kafka-configs --describe --entity-type topics --entity-name orders"),
    Call("kafka-configs --describe --topic orders --all"),
    Call("kafka-configs --alter --topic orders --delete-config retention.ms,segment.ms"),
    Call("kafka-configs --alter --topic orders --add-config nonsense=1"),
    Call("kafka-configs --describe --topic missing"),
    Call("kafka-configs --describe --entity-type brokers --entity-default"),
    Call("kafka-configs --describe --broker 1"),
    # Java's makes a group of a random name for each of these, so they come last.
    Call("kafka-console-consumer --topic lines --from-beginning --max-messages 2"),
    Call("kafka-console-consumer --topic lines --from-beginning --timeout-ms 4000"),
    Call("kafka-console-consumer --topic lines --partition 0 --offset 1 --max-messages 1 --property print.offset=true"),
    Call("kafka-get-offsets --topic orders"),
    Call("kafka-get-offsets --topic lines --time -2"),
    Call("kafka-get-offsets --topic missing"),
    Call("kafka-cluster cluster-id"),
    Call("kafka-cluster list-endpoints"),
    Call("kafka-cluster list-endpoints --include-fenced-brokers"),
    Call("kafka-cluster unregister --id 9"),
    Call("kafka-broker-api-versions"),
)


def words_of(call: Call, bootstrap: str) -> list[str]:
    script, *words = call.line.split()
    command = [words.pop(0)] if words and not words[0].startswith("-") else []
    return [script, *command, "--bootstrap-server", bootstrap, *words]


def written(run: Callable[[Call], tuple[int, str]], bootstrap: str) -> str:
    """Each call, its exit code, and the lines that it prints on standard output. Lines are sorted: Kafka's tools print
    what they keep in hash tables. The times, ids and addresses of a run are left out."""
    parts = []
    for call in CALLS:
        code, printed = run(call)
        lines = sorted(_in_order(line.rstrip()) for line in printed.replace(bootstrap, "BROKER").splitlines())
        shown = "\n".join(re.sub(r"(TopicId|Cluster ID): \S+", r"\1: ID", line) for line in lines)
        shown = re.sub(rf"\b{bootstrap.rpartition(':')[2]}\b", "PORT ", shown)
        parts.append(f"$ {call.line}\n{shown}\n= {code}\n")
    return "\n".join(parts)


def _in_order(line: str) -> str:
    """Kafka's tool prints the settings of a topic in the order of a hash table."""
    start, title, configs = line.partition("Configs: ")
    return f"{start}{title}{','.join(sorted(configs.split(',')))}"


def run_java(call: Call, bootstrap: str) -> tuple[int, str]:
    import subprocess

    script, *words = words_of(call, bootstrap)
    ended = subprocess.run(
        java_command(JAVA_CLASSES[script], *words), input=call.feed, capture_output=True, text=True, timeout=PATIENCE_S
    )
    return ended.returncode, ended.stdout


if __name__ == "__main__":
    GOLDEN.write_text(written(lambda call: run_java(call, sys.argv[1]), sys.argv[1]))
