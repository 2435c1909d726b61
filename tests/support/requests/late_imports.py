"""Prints the modules of ours that the first request of an API imports although the API is loaded.

Run as `python -m tests.support.requests.late_imports`, since it needs a process in which nothing has been asked for.
"""

import os
import sys
from importlib import import_module

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.requests.dispatch import import_api
from tests.fakes.broker import VirtualBroker
from tests.support.requests.messages import filled_request


def late_imports(broker: VirtualBroker, api: Api) -> list[str]:
    message = filled_request(api)
    import_module(f"oncelog.protocol.generated.{api.name}_response")
    frame = broker.frame(message, api.maximum)
    import_api(api)
    before = set(sys.modules)
    broker.take(frame, message, api.maximum)
    broker.let_pass(400_000)
    return sorted(name for name in set(sys.modules) - before if name.startswith("oncelog."))


def main() -> None:
    broker = VirtualBroker()
    if "oncelog.broker.assembly.groups" in sys.modules:
        raise SystemExit("groups are loaded: a request could not be seen to load them")
    for api in API_TABLE.values():
        child = os.fork()
        if not child:
            if found := late_imports(broker, api):
                print(api.name, *found, flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
