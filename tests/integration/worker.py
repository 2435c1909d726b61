"""`python -m tests.integration.worker KIND BOOTSTRAP`: a client that does what it reads, one call a line.

A line is `[method, arguments, keywords]` as JSON; the response `{"value": ...}` or `{"kind": ..., "message": ...}` of a
refusal. The first line out is `"ready"`. At the end of its input it closes its client.
"""

import json
import sys
from typing import Any

from tests.integration.clients import KINDS, Refused


def _respond(value: Any) -> None:
    print(json.dumps(value), flush=True)


def main(kind: str, bootstrap: str) -> None:
    client = KINDS[kind](bootstrap)
    _respond("ready")
    for line in sys.stdin:
        method, arguments, keywords = json.loads(line)
        try:
            with client.refusals():
                _respond({"value": getattr(client, method)(*arguments, **keywords)})
        except Refused as refused:
            _respond({"kind": refused.kind, "message": str(refused)})
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
