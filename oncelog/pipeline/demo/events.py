"""Events that the demonstration's processes report: one JSON object per line on standard output.

Owns: writing and reading such lines. A line that is not JSON is other output and is kept apart.
"""

import json
import sys
from typing import Any


def emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def parse(line: str) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "event" in message else None
