"""Clients that never finish their login: what they announce costs the broker nothing, and others are served."""

import resource
import socket
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.security.certificates import Certificates
from tests.support.security.secure_clients import ROUND_TRIPS, Security

_CLIENTS = 300
_TLS_HELLO_BEGINS = b"\x16\x03\x01\x40\x00\x01"
_ANNOUNCES_100_MIB = (100 << 20).to_bytes(4, "big") + bytes(1_000)
_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


def processor_ticks(process_id: int) -> int:
    """Return the hundredths of a second that the process used, in user and system mode."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 12_000, reason="needs 12,000 open files")
def test_ten_thousand_of_them_cost_little_time_and_others_are_served(start_daemon: Start, tmp_path: Path) -> None:
    """Half of them announce 100 MiB on a listener without TLS, half stop in the handshake of one with it. Measured:
    5 KiB and 54 KiB each, and a second of processor time for all."""
    certificates = Certificates(tmp_path)
    daemon = start_daemon(
        "listeners=SASL_PLAINTEXT://localhost:0,SASL_SSL://localhost:0",
        "sasl.enabled.mechanisms=PLAIN",
        *(f"listener.name.{name}.plain.sasl.jaas.config={_JAAS}" for name in ("sasl_plaintext", "sasl_ssl")),
        *(f"{name}={value}" for name, value in certificates.server_settings().items()),
    )
    plain, tls = daemon.addresses
    security = Security("SASL_SSL", certificates.authority_path, "", "PLAIN", "alice", "secret")
    assert ROUND_TRIPS["kafka-python"](tls, security, b"before") == b"before"
    process_id = daemon.process.pid
    before_kib, before_ticks = resident_kib(process_id), processor_ticks(process_id)
    clients = []
    for address, data in ((plain, _ANNOUNCES_100_MIB), (tls, _TLS_HELLO_BEGINS)):
        host, _, port = address.rpartition(":")
        for _ in range(5_000):
            clients.append(socket.create_connection((host, int(port))))
            clients[-1].sendall(data)
    assert ROUND_TRIPS["kafka-python"](tls, security, b"after") == b"after"
    grown_kib, ticks = resident_kib(process_id) - before_kib, processor_ticks(process_id) - before_ticks
    for client in clients:
        client.close()
    assert grown_kib < 5_000 * 100
    assert ticks < 1_000
