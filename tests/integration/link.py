"""`python -m tests.integration.link down|up`: pulls the network cable of the container it runs in, and plugs it in.

Addresses and connections stay, so that both sides notice nothing but silence. It needs the rights of
`exec --privileged --user root`, which docker and podman give to one command in a container that has none. Disconnecting
the container from its network would give it another address, and podman's name server loses questions meanwhile.
"""

import fcntl
import socket
import struct
import sys

_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914  # SIOCGIFFLAGS, SIOCSIFFLAGS
_IS_UP = 1
_REQUEST = "16sH14x"  # struct ifreq


def main(wanted: str) -> None:
    (interface,) = (name.encode() for _, name in socket.if_nameindex() if name != "lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        found = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack(_REQUEST, interface, 0))
        _, flags = struct.unpack(_REQUEST, found)
        flags = flags | _IS_UP if wanted == "up" else flags & ~_IS_UP
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, interface, flags))


if __name__ == "__main__":
    main(sys.argv[1])
