"""Delegation tokens of a daemon: workers log in with them, over kills and restarts, until they end."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, AuthenticationFailed, ConfigError, Consumer, DelegationToken, Producer
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.security.counted_logins import counted_logins

PASSWORD = "alice's password"
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="{PASSWORD}";'
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (port,) = free_ports(1)
    running = Daemon(
        tmp_path / "data",
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={_JAAS}",
        "delegation.token.secret.key=a secret of this broker",
    )
    yield running
    running.stop()


def by_password(user: str = "alice") -> Any:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": PASSWORD,
    }


def by_token(token: DelegationToken, mechanism: str = "SCRAM-SHA-512") -> Any:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": token.token_id,
        "sasl_password": token.hmac,
        "sasl_tokenauth": True,
    }


async def produce(daemon: Daemon, options: Any) -> int:
    async with Producer(daemon.bootstrap, **options) as producer:
        return (await producer.send("events", b"value")).offset


async def test_a_token_holds_over_kills_until_it_is_expired(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap, **by_password()) as admin:
        token = await admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        other = await admin.create_delegation_token()
    assert await produce(daemon, by_token(token)) == 0
    daemon.kill()
    daemon.start()
    assert await produce(daemon, by_token(token, "SCRAM-SHA-256")) == 1
    async with Admin(daemon.bootstrap, **by_password("bob")) as admin:
        assert await admin.describe_delegation_tokens("User:bob") == [token]
        renewed_ms = await admin.renew_delegation_token(token.hmac, renew_period_ms=60_000)
        assert renewed_ms < token.expiry_time_ms
        with pytest.raises(ConfigError, match="OWNER_MISMATCH"):
            await admin.expire_delegation_token(other.hmac)
    daemon.kill()
    daemon.start()
    async with Admin(daemon.bootstrap, **by_password()) as admin:
        found = {each.token_id: each.expiry_time_ms for each in await admin.describe_delegation_tokens()}
        assert found == {token.token_id: renewed_ms, other.token_id: other.expiry_time_ms}
        await admin.expire_delegation_token(token.hmac)
    for _ in range(2):
        with pytest.raises(AuthenticationFailed, match="delegation token"):
            await produce(daemon, by_token(token))
        daemon.kill()
        daemon.start()
    assert await produce(daemon, by_token(other)) == 2


async def test_a_session_continues_while_its_token_is_renewed_and_ends_with_it(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client logs in again before each end, on the same connections."""
    async with Admin(daemon.bootstrap, **by_password()) as admin:
        token = await admin.create_delegation_token()
        await admin.create_topics("events")
        first_end_ms = await admin.expire_delegation_token(token.hmac, expiry_period_ms=5_000)
        logins = counted_logins(monkeypatch)
        async with Consumer("events", bootstrap_servers=daemon.bootstrap, **by_token(token)) as consumer:
            await consumer.poll(0)
            before = logins.count
            end_ms = await admin.expire_delegation_token(token.hmac, expiry_period_ms=10_000)
            assert end_ms > first_end_ms + 1_000
            with pytest.raises(AuthenticationFailed, match=f"delegation token '{token.token_id}'"):
                while True:
                    async with asyncio.timeout(PATIENCE_S):
                        await consumer.poll(100)
        assert logins.count > before
        assert time.time() * 1000 >= end_ms
