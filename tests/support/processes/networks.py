"""A network of its own for a process, joined to ours by one cable, on which packets can be dropped: neither side is
notified, as where a cable is pulled or a switch fails. Needs root, `ip` and `nft`.

Owns: a network namespace, the two ends of the cable (addresses that are set aside for tests, RFC 2544), and what is
dropped. What is dropped is decided inside, so that nothing of it is left in our own network.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

ADDRESSES = "198.18.0.0/15"
_TABLE = """
table inet cut {
  chain input { type filter hook input priority 0; }
  chain output { type filter hook output priority 0; }
}
"""
_SMALLEST = 4
"""Addresses of a network of two."""


class Network:
    def __init__(self, number: int) -> None:
        """`number` is its own among those of this process."""
        first = number * _SMALLEST
        subnet = f"198.18.{os.getpid() % 256}"
        self.here, self.inside = f"{subnet}.{first + 1}", f"{subnet}.{first + 2}"
        """The address of our end, and that of the other."""
        self._name = f"oncelog-{os.getpid()}-{number}"
        self._cable = f"ol{os.getpid()}-{number}"

    @property
    def command(self) -> list[str]:
        """Prefix of a command that is to run inside; its process becomes that command."""
        return ["nsenter", f"--net=/run/netns/{self._name}"]

    @contextmanager
    def open(self) -> Iterator["Network"]:
        _run("ip", "netns", "add", self._name)
        try:
            _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", "cable", "netns", self._name)
            _run("ip", "address", "add", f"{self.here}/30", "dev", self._cable)
            _run("ip", "link", "set", self._cable, "up")
            _run("ip", "-n", self._name, "address", "add", f"{self.inside}/30", "dev", "cable")
            for device in ("cable", "lo"):
                _run("ip", "-n", self._name, "link", "set", device, "up")
            self._nft(_TABLE)
            yield self
        finally:
            # With the network alone it would be gone a while later.
            subprocess.run(["ip", "link", "delete", self._cable], check=False)
            _run("ip", "netns", "delete", self._name)

    def drop_incoming(self, what: str = "") -> None:
        """Drop incoming packets that match an expression of nft, such as "tcp sport 5432"; without one, all."""
        self._nft(f"add rule inet cut input iif cable {what} drop")

    def drop_outgoing(self, what: str = "") -> None:
        """Drop outgoing packets that match an expression of nft; without one, all."""
        self._nft(f"add rule inet cut output oif cable {what} drop")

    def heal(self) -> None:
        self._nft("flush chain inet cut input; flush chain inet cut output")

    def _nft(self, commands: str) -> None:
        subprocess.run([*self.command, "nft", "-f", "-"], input=commands, text=True, check=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def open_networks(count: int) -> Iterator[list[Network]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Network(number).open()) for number in range(count)]


def why_no_networks() -> str:
    """Why there can be none here; "" if there can."""
    if os.getuid() != 0:
        return "only root can make networks that are cut"
    missing = [each for each in ("ip", "nft", "nsenter") if shutil.which(each) is None]
    if missing:
        return f"networks that are cut need {' and '.join(missing)}"
    try:
        with open_networks(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network can be made here: {error}"
