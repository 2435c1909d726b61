"""Notifications of this process to the service manager (sd_notify): imported only where one listens.

Owns: the datagram. A service manager that does not take it is no reason to stop.
"""

import os
import socket
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


def tell_service_manager(state: str) -> None:
    """Send `READY=1` and the like to the address in the environment, if there is one."""
    address = os.environ.get(VARIABLE, "")
    if address[:1] not in ("/", "@"):
        return
    path = "\0" + address[1:] if address[0] == "@" else address  # the second kind is Linux's abstract namespace
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
        sending.sendto(state.encode(), path)
