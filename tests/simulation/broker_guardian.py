"""An administrator in simulation who limits clients and names users: what was acknowledged is described ever after.

Owns: what it asks for, and that promise, through every stop, with snapshots of the metadata between. The quotas are of
clients that are not there; that one exists puts every request of the others through what would charge them.
"""

from collections.abc import Generator
from random import Random
from typing import Any

from oncelog.protocol.generated import alter_client_quotas_request as alter_quotas
from oncelog.protocol.generated import alter_user_scram_credentials_request as alter_users
from oncelog.protocol.generated import describe_client_quotas_request as describe_quotas
from oncelog.protocol.generated import describe_user_scram_credentials_request as describe_users
from oncelog.protocol.message import Message
from tests.clients.simulated import Life, Question
from tests.simulation.log_auditor import AuditError

_RATE = "producer_byte_rate"


def guards(random: Random, count: int) -> Life:
    kept: dict[str, float] = {}
    for number in range(count):
        name, value = f"absent-{number}", 1_000.0 + number
        yield from until_taken(_quota(name, value), 1)
        yield from until_taken(_user(name), 0)
        kept[name] = value
        for _ in range(random.randint(1, 4)):
            yield random.choice([0, 50, 700])
            yield from _expect(kept)
        if random.random() < 0.5:
            del kept[name]
            yield from until_taken(_quota(name, None), 1)


def _expect(kept: dict[str, float]) -> Generator[Question | int, Any, None]:
    answer = yield describe_quotas.DescribeClientQuotasRequest(components=[]), 1
    if answer is not None:
        found = {entry.entity[0].entity_name: entry.values[0].value for entry in answer.entries}
        if not kept.items() <= found.items():
            raise AuditError(f"acknowledged quotas are gone: {kept.items() - found.items()}")
    answer = yield describe_users.DescribeUserScramCredentialsRequest(users=None), 0
    if answer is not None:
        users = {result.user for result in answer.results}
        if not kept.keys() <= users:
            raise AuditError(f"acknowledged users are gone: {kept.keys() - users}")


def _quota(name: str, value: float | None) -> Message:
    op = alter_quotas.OpData(key=_RATE, value=value or 0.0, remove=value is None)
    entity = [alter_quotas.EntityData(entity_type="client-id", entity_name=name)]
    return alter_quotas.AlterClientQuotasRequest(entries=[alter_quotas.EntryData(entity=entity, ops=[op])])


def _user(name: str) -> Message:
    upsertion = alter_users.ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=4_096, salt=b"salt", salted_password=b"password" * 4
    )
    return alter_users.AlterUserScramCredentialsRequest(upsertions=[upsertion])


def until_taken(request: Message, version: int) -> Generator[Question | int, Any, None]:
    """Asks until it is acknowledged: to set and to remove may be repeated."""
    while True:
        answer = yield request, version
        if answer is not None:
            names = ("entries", "results", "filter_results")
            results = next(found for name in names if (found := getattr(answer, name, None)) is not None)
            if [result.error_code for result in results] == [0]:
                return
        yield 30
