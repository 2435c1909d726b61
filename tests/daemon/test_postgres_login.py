"""A broker that logs in to PostgreSQL with a password, over TLS: docs/operate/postgres.md says where both come from."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.client.blocking.clients import Producer
from oncelog.tools.demo.postgres_server import installed_programs, reachable_programs
from oncelog.tools.demo.stage import DemoFailed
from tests.conftest import Start
from tests.support.postgres.server import Postgres, open_directory
from tests.support.security.certificates import Certificates

pytestmark = pytest.mark.postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
_SCHEMA = "records"
_HOST_RULES = "hostssl all kafka 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def postgres(certificates: Certificates) -> Iterator[Postgres]:
    """One that lets in the role kafka with its password over TLS alone."""
    with open_directory() as directory:
        for programs in installed_programs():
            server = Postgres(directory / programs.parts[-2], reachable_programs(programs, directory))
            server.stop()
            key = server.directory / "server.pem"
            shutil.copy(certificates.server_path, key)
            owner = server.directory.stat()
            os.chown(key, owner.st_uid, owner.st_gid)
            key.chmod(0o600)
            server.configure({"ssl": "on", "ssl_cert_file": str(key), "ssl_key_file": str(key)})
            (server.directory / "pg_hba.conf").write_text(_HOST_RULES, encoding="utf-8")
            try:
                server.start()
            except DemoFailed as error:
                if "SSL is not supported by this build" in str(error):
                    continue
                raise
            try:
                with psycopg.connect(server.dsn, autocommit=True) as administrator:
                    administrator.execute("create role kafka login password 'secret'")
                    administrator.execute(f"create schema {_SCHEMA} authorization kafka")
                yield server
            finally:
                server.stop("immediate")
            return
    pytest.skip("no PostgreSQL here has TLS")


@pytest.mark.parametrize("by", ["variables", "files"])
def test_password_and_authority_come_from_variables_and_files_and_the_server_is_verified(
    postgres: Postgres,
    certificates: Certificates,
    start_daemon: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    """The broker's connections are encrypted, and its log and the DSN that `ps` shows have no password."""
    dsn = postgres.dsn_of("postgres", "kafka")
    if by == "variables":
        monkeypatch.setenv("PGPASSWORD", "secret")
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        monkeypatch.setenv("PGSSLROOTCERT", certificates.authority_path)
    else:
        passwords = tmp_path / "passwords"
        passwords.write_text("127.0.0.1:*:*:kafka:secret\n", encoding="utf-8")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
        dsn += f"?sslmode=verify-full&sslrootcert={certificates.authority_path}"
    daemon = start_daemon(
        "oncelog.storage=postgres", f"oncelog.postgres.dsn={dsn}", f"oncelog.postgres.schema={_SCHEMA}"
    )
    with Producer(daemon.bootstrap) as producer:
        producer.send("orders", b"value")
    with psycopg.connect(postgres.dsn, autocommit=True) as administrator:
        found = administrator.execute(
            "select distinct usename, ssl from pg_stat_activity join pg_stat_ssl using (pid) "
            "where application_name = 'oncelog'"
        ).fetchall()
    assert found == [("kafka", True)]
    assert "secret" not in daemon.log
