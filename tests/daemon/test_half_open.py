"""Clients that never finish their login: what they announce costs the broker nothing, and others are served."""

import socket
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.certificates import Certificates
from tests.support.secure_clients import ROUND_TRIPS, Security

_CLIENTS = 300
_TLS_HELLO_BEGINS = b"\x16\x03\x01\x40\x00\x01"
_ANNOUNCES_100_MIB = (100 << 20).to_bytes(4, "big") + bytes(1_000)
_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


def resident_kib(process_id: int) -> int:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("the system does not say")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("protocol", "data"), [("SASL_PLAINTEXT", _ANNOUNCES_100_MIB), ("SASL_SSL", _TLS_HELLO_BEGINS)]
)
def test_the_memory_of_the_broker_stays_flat(start_daemon: Start, tmp_path: Path, protocol: str, data: bytes) -> None:
    """CVE-2022-34917: clients without a login made a broker allocate what they announced."""
    certificates = Certificates(tmp_path)
    daemon = start_daemon(
        f"listeners={protocol}://localhost:0",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config={_JAAS}",
        *(f"{name}={value}" for name, value in certificates.server_settings().items()),
    )
    security = Security(protocol, certificates.authority_path, "", "PLAIN", "alice", "secret")
    assert ROUND_TRIPS["kafka-python"](daemon.bootstrap, security, b"before") == b"before"
    host, _, port = daemon.bootstrap.rpartition(":")
    before_kib = resident_kib(daemon.process.pid)
    clients = [socket.create_connection((host, int(port))) for _ in range(_CLIENTS)]
    for client in clients:
        client.sendall(data)
    assert ROUND_TRIPS["kafka-python"](daemon.bootstrap, security, b"after") == b"after"
    grown_kib = resident_kib(daemon.process.pid) - before_kib
    for client in clients:
        client.close()
    assert grown_kib < _CLIENTS * 100, "a client that stops in its handshake holds some 50 KiB of OpenSSL's"
