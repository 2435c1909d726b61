"""`kafka-server-start` and `kafka-storage`: what compose files call to format a directory and start a broker.

Owns: the way to `oncelog serve`. A directory needs no formatting here; its cluster id is in CLUSTER_ID or the settings.
"""

import base64
import os
import sys
import uuid
from pathlib import Path

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, out


def start(options: Options) -> int:
    """Become the broker, for `kafka-server-start FILE [--override NAME=VALUE]...`."""
    words = [each for each in options.words if each != "-daemon"]
    if len(words) != len(options.words):
        raise Wrong(f"{options.script}: -daemon is not offered here; `&` starts it in the background")
    if not words or words[0].startswith("-"):
        raise Wrong(f"USAGE: {options.script} server.properties [--override property=value]*")
    os.execv(
        sys.executable, [sys.executable, "-P", "-m", "oncelog", "serve", "--config", str(Path(words[0])), *words[1:]]
    )


def storage(options: Options) -> int:
    """Do as `kafka-storage random-uuid`, and `format`, which has nothing to do."""
    match list(options.words[:1]):
        case ["random-uuid"]:
            out(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
        case ["format"]:
            out("Nothing to format: oncelog makes what it needs when it starts.")
        case words:
            raise Wrong(f"{options.script} {' '.join(words)}: random-uuid and format are offered here")
    return 0
