"""The files, log and responses of a daemon with logins, at its most talkative, hold no secret; its files are its
own.
"""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from oncelog import AuthenticationFailed, ConfigError
from oncelog.client import UserScramCredentialUpsertion
from oncelog.sync import Admin
from tests.support.patience import PATIENCE_S
from tests.support.security.certificates import Certificates

ALICES, NEW, KEY, TOKENS = "alices-hunter2", "carols-hunter2", "keys-hunter2", "tokens-hunter2"
SECRETS = (ALICES, NEW, KEY, TOKENS, "hunter2")
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_ROOT = Path(__file__).parents[2]


def _encrypted(path: str, directory: Path) -> Path:
    """Write the key again, encrypted with a password."""
    pem = Path(path).read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    encryption = serialization.BestAvailableEncryption(KEY.encode())
    encrypted = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    target = directory / "encrypted.pem"
    target.write_bytes(encrypted + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    return target


class Served:
    """A daemon that has its settings from a file."""

    def __init__(self, directory: Path, jaas: str) -> None:
        self.directory = directory
        certificates = Certificates(directory)
        self.authority_path = certificates.authority_path
        (directory / "server.properties").write_text(
            "listeners=SASL_SSL://localhost:0\n"
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n"
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}\n"
            f"delegation.token.secret.key={TOKENS}\n"
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "super.users=User:alice\n"
            "oncelog.witness.enable=true\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={_encrypted(certificates.server_path, directory)}\n"
            f"ssl.key.password={KEY}\n"
        )
        command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--log-level", "debug"]
        command += ["--data-dir", str(directory / "data"), "--config", str(directory / "server.properties")]
        self.log_path = directory / "log"
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={"PYTHONPATH": str(_ROOT)}
            )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()

    @property
    def address(self) -> str:
        return self.ready.split()[2]

    def admin(self, password: str = ALICES) -> Admin:
        return Admin(
            self.address,
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_username="alice",
            sasl_password=password,
            ssl_truststore_location=self.authority_path,
        )

    def stop(self) -> str:
        """Stop it and return its log."""
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.log_path.read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path, f'{_JAAS} user_alice="{ALICES}";')
    yield running
    running.stop()


def _doctor(served: Served) -> str:
    properties = served.directory / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_JAAS} username="alice" password="{ALICES}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={served.authority_path}\n"
    )
    arguments = ["doctor", "-b", served.address, "--command-config", str(properties), "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "oncelog", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.stdout
    return ended.stdout + ended.stderr


def test_nothing_that_is_written_logged_or_answered_has_a_secret(served: Served) -> None:
    told: list[object] = []
    with pytest.raises(AuthenticationFailed) as refused, served.admin("wrong-hunter2"):
        pass
    told.append((refused.value, repr(refused.value)))
    with served.admin() as admin:
        admin.alter_user_scram_credentials(UserScramCredentialUpsertion("carol", NEW))
        told.append(admin.describe_configs(node_id=1))
        with pytest.raises(ConfigError) as wrong:
            name = "listener.name.sasl_ssl.plain.sasl.jaas.config"
            admin.alter_configs({name: f'{_JAAS} user_alice="{ALICES}'}, node_id=1)
        told.append((wrong.value, repr(wrong.value), repr(admin)))
    told.append(_doctor(served))
    command_line = Path(f"/proc/{served.process.pid}/cmdline")
    told.append(command_line.read_text() if command_line.exists() else "")
    told.append(served.stop())
    text = "\n".join(map(str, told))
    assert "request" in text, "the log is at debug"
    assert [secret for secret in SECRETS if secret in text] == []
    for path in (served.directory / "data").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
        if path.is_file():
            data = path.read_bytes()
            assert [secret for secret in SECRETS if secret.encode() in data] == []
            assert not any(b64encode(secret.encode()) in data for secret in SECRETS)
    assert (served.directory / "data").stat().st_mode & 0o077 == 0


def test_a_file_of_settings_that_cannot_be_used_is_refused_without_its_secrets(tmp_path: Path) -> None:
    served = Served(tmp_path, f'{_JAAS} user_alice="{ALICES}')
    assert served.ready == ""
    assert served.process.wait(PATIENCE_S) != 0
    said = served.stop()
    assert "plain.sasl.jaas.config" in said
    assert [secret for secret in SECRETS if secret in said] == []
