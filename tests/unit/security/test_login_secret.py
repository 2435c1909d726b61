"""The secret from which challenges for unknown users are derived: it lasts, and no user can read it."""

import errno

import pytest

from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.security.login_secret import login_secret
from oncelog.broker.security.scram import SCRAM_MECHANISMS, Keys
from oncelog.broker.storage.memory.store import MemoryBlobs
from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.sasl_connection import SaslServer
from tests.clients.scram_client import ScramClient, keys
from tests.fakes.broker import SeededEntropy

SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]


def challenge(server: SaslServer, user: str) -> list[str]:
    """The salt and iterations that a client gets."""
    client = server.connect()
    client.handshake(SHA_256.name)
    said = client.token(ScramClient(SHA_256, user, "").first).auth_bytes.decode()
    return str(said).split(",")[1:]


def write(server: SaslServer, record: object) -> None:
    server.virtual.broker.metadata.write([record])
    server.virtual.time.settle()


def test_an_unknown_user_has_the_same_salt_after_changes_of_others_and_a_restart() -> None:
    """A known user's is the same too: if only an unknown user's salt changed, it would give them away."""
    made: Keys = keys(SHA_256, "secret", b"s" * 26, 4_096)
    alice = UserScramCredentialRecord("alice", 1, b"s" * 26, made.stored_key, made.server_key, 4_096)
    server = SaslServer()
    before = challenge(server, "nobody")
    write(server, alice)
    assert challenge(server, "nobody") == before
    restarted = SaslServer(disk=server.virtual.disk.kill())
    assert challenge(restarted, "nobody") == before
    assert challenge(restarted, "alice") != challenge(restarted, "another") != before
    write(restarted, RemoveUserScramCredentialRecord(name="alice", mechanism=1))
    again = SaslServer(disk=restarted.virtual.disk.kill())
    assert challenge(again, "nobody") == before


def test_no_two_directories_share_a_secret() -> None:
    disks = [MemoryDisk(), MemoryDisk()]
    entropy = SeededEntropy(1)
    made = [login_secret(disk, entropy) for disk in disks]
    assert made[0] != made[1]
    assert [login_secret(disk, entropy) for disk in disks] == made
    assert {len(each) for each in made} == {32}


def test_a_secret_that_was_cut_short_is_made_again() -> None:
    disk, entropy = MemoryDisk(), SeededEntropy(1)
    disk.write_atomically(LOGIN_SECRET, b"short")
    made = login_secret(disk, entropy)
    assert len(made) == 32
    assert login_secret(disk, entropy) == made


class FullDisk(MemoryDisk):
    """Takes no more files."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def write_atomically(self, path: str, data: object) -> None:
        raise OSError(self._code, "no")


def test_a_full_disk_stops_no_logins_and_a_broken_one_does() -> None:
    entropy = SeededEntropy(1)
    assert len(login_secret(FullDisk(errno.ENOSPC), entropy)) == 32
    with pytest.raises(OSError, match="no"):
        login_secret(FullDisk(errno.EIO), entropy)


def test_a_broker_in_memory_has_one_secret_for_the_life_of_the_process() -> None:
    entropy = SeededEntropy(1)
    assert login_secret(MemoryBlobs(), entropy) != login_secret(MemoryBlobs(), entropy)
