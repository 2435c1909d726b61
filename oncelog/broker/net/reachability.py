"""Whether a client that connected through a listener can reach the address advertised to it there.

Owns: the verdict, and logging it once for each listener and address. Invariants
- Nothing is looked up: only known addresses are compared, so a doubtful case is reported as a doubt.
- A client on the same machine can reach any address of it, and one that comes through the gateway of a container's
  network usually runs on the host, whose published ports are what `localhost` means: neither causes a warning.
- At most `_MAX_PEERS` addresses are remembered, so that no client can fill the log or the memory.
"""

from collections.abc import Callable
from typing import Any

from oncelog.broker.config.listeners import is_loopback

_MAX_PEERS = 1_000
_ROUTES = "/proc/net/route"


class FollowWarnings:
    """Warns about clients that will connect, receive an address, and then fail to reach it."""

    def __init__(self, log: Any, gateways: Callable[[], frozenset[str]]) -> None:
        self._log = log
        self._gateways = gateways
        self._seen: set[tuple[str, str]] = set()

    def on_connected(
        self, listener_name: str, advertised: tuple[str, int], *, is_guess: bool, peer: str, reached: str
    ) -> None:
        """Warn if `peer`, which connected to our address `reached`, may not reach the advertised one; `is_guess` says
        that none was configured."""
        if (listener_name, peer) in self._seen or len(self._seen) >= _MAX_PEERS:
            return
        self._seen.add((listener_name, peer))
        reason = self._doubt(advertised[0], is_guess=is_guess, peer=peer, reached=reached)
        if reason is not None:
            host, port = advertised
            shown = f"[{reached}]" if ":" in reached else reached
            self._log.warning(
                "listener.not_reachable",
                listener=listener_name,
                peer=peer,
                advertised=f"{host}:{port}",
                message=f"{reason}: set advertised.listeners={listener_name}://HOST:{port} with a HOST that clients "
                f"can reach (this one came to {shown}), or give clients of that network their own listener",
            )

    def _doubt(self, host: str, *, is_guess: bool, peer: str, reached: str) -> str | None:
        if is_loopback(peer) or peer == reached:
            return None
        if is_loopback(host):
            if peer in self._gateways():
                return None
            return f"the address advertised to this client is {host}, which is itself"
        if is_guess:
            return f"the address advertised to this client is {host}, the name of this machine, which it may not know"
        return None


def default_gateways() -> frozenset[str]:
    """Return this machine's or container's default gateways; none if the system does not say."""
    try:
        with open(_ROUTES, encoding="ascii") as routes:
            rows = [line.split() for line in routes.readlines()[1:]]
    except OSError:
        return frozenset()
    return frozenset(
        ".".join(str(byte) for byte in reversed(bytes.fromhex(row[2])))
        for row in rows
        if len(row) > 2 and row[1] == "00000000" and len(row[2]) == 8
    )
