"""Spark's own Kafka connector, for tests and measurements beside ours: four jars, kept in the ignored .interop.

Owns: which versions. They are fetched one by one, without what they depend on: Spark's package has the rest. A mixed
set, as registries have it: the connector's releases do not come with every Spark, nor their token provider with them.
"""

import subprocess
from pathlib import Path

from tools import interop

ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""For `spark.jars` of Spark 4.3."""


def connector_jars(place: Path = interop.PLACE / "spark-kafka") -> list[Path]:
    """The jars, fetched if they are not there yet. Raises interop.Unavailable."""
    interop.need("java", "mvn")
    found = []
    for artifact in ARTIFACTS:
        _, name, version = artifact.split(":")
        jar = place / f"{name}-{version}.jar"
        if not jar.exists():
            place.mkdir(parents=True, exist_ok=True)
            command = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"]
            try:
                interop.call("mvn", "-q", "-B", *command)
            except subprocess.CalledProcessError as error:
                raise interop.Unavailable(f"{artifact} could not be fetched (mvn exit {error.returncode})") from None
        found.append(jar)
    return found
