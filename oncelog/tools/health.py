"""`oncelog health`: whether a broker responds, for scripts and containers.

Owns: the sentence. Does not own: the request (`oncelog.health`), which needs no client.
Exit codes: 0 it responds, 1 it does not, as a container's health check wants it.
"""

from functools import partial

import click

from oncelog.tools.asking import choose, connection_options, probe
from oncelog.tools.terminal import say, say_json

EXIT_NOT_HEALTHY = 1
_TIMEOUT_S = 3


@click.command()
@partial(connection_options, default_timeout_s=_TIMEOUT_S)
def health(
    bootstrap: str | None, profile: str | None, command_config: str | None, timeout_s: float | None, as_json: bool
) -> None:
    """Exit with 0 if a broker responds there, with 1 if not."""
    chosen = choose(bootstrap, profile, timeout_s or _TIMEOUT_S, command_config)
    api_count = probe(chosen, EXIT_NOT_HEALTHY)
    if as_json:
        say_json({"bootstrap": chosen.bootstrap, "api_count": api_count})
    else:
        say(f"{chosen.bootstrap} responds: {api_count} APIs")
