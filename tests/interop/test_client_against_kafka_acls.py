"""`oncelog acl`, the client's calls and its errors, against our daemon and, where its jars are, Apache Kafka."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client import Acl, AclFilter, ConfigError, KafkaError
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.protocol.errors import ErrorCode
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import until

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
READ = Acl("User:alice", "READ", "TOPIC", "orders")
WRITE = Acl("User:alice", "WRITE", "TOPIC", "or", pattern_type="PREFIXED")
DENY = Acl("User:*", "ALL", "GROUP", "*", permission="DENY", host="10.0.0.1")


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker where a user may do everything to resources without a rule."""
    with serving(request.param, tmp_path_factory.mktemp(request.param), *SETTINGS) as address:
        yield address


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin
        admin.delete_acls(AclFilter())


def _run(bootstrap: str, *arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["acl", *arguments, "--bootstrap", bootstrap])
    assert result.exit_code == exit_code, (result.output, result.exception)
    return result


def test_rules_that_were_created_are_described_and_deleted_by_what_they_say(admin: Admin) -> None:
    admin.create_acls(READ, WRITE, DENY, READ)
    assert set(admin.describe_acls()) == {READ, WRITE, DENY}
    assert admin.describe_acls(AclFilter(resource_type="TOPIC", resource_name="orders")) == [READ]
    match = AclFilter(resource_type="TOPIC", resource_name="orders", pattern_type="MATCH")
    assert set(admin.describe_acls(match)) == {READ, WRITE}
    deleted = admin.delete_acls(AclFilter(principal="User:alice"), AclFilter(operation="READ"))
    assert set(deleted) == {READ, WRITE}
    assert admin.describe_acls() == [DENY]


def test_what_is_no_rule_is_refused_by_its_name_or_by_the_broker(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="'SEE' is no AclOperation"):
        admin.create_acls(Acl("User:alice", "SEE", "TOPIC", "orders"))
    with pytest.raises(ConfigError, match="no colon is present"):
        admin.create_acls(Acl("alice", "READ", "TOPIC", "orders"))


def test_the_command_knows_rights_on_users_and_tokens(bootstrap: str, admin: Admin) -> None:
    of_carol = ("--user-principal", "carol", "--json")
    rows = json.loads(_run(bootstrap, "add", "-p", "alice", "-o", "create_tokens", *of_carol).stdout)
    assert [(row["resource"], row["name"], row["operation"]) for row in rows] == [
        ("USER", "User:carol", "CREATE_TOKENS")
    ]
    _run(bootstrap, "add", "-p", "alice", "-o", "describe", "--delegation-token", "id")
    assert admin.describe_acls(AclFilter(resource_type="USER")) == [
        Acl("User:alice", "CREATE_TOKENS", "USER", "User:carol")
    ]
    assert len(admin.describe_acls()) == 2
    assert json.loads(_run(bootstrap, "remove", *of_carol).stdout) == rows
    wrong = _run(bootstrap, "add", "-p", "alice", "-o", "read", "--user-principal", "carol", exit_code=2)
    assert "USER has no operation READ: ALL, CREATE_TOKENS, DESCRIBE_TOKENS" in wrong.stderr


def test_the_command_adds_lists_and_removes_and_changes_nothing_on_a_dry_run(bootstrap: str, admin: Admin) -> None:
    add = ("add", "--principal", "alice", "-o", "read", "-o", "describe", "--topic", "orders", "--json")
    row = {
        "resource": "TOPIC",
        "name": "orders",
        "pattern": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "permission": "ALLOW",
    }
    rows = [{**row, "operation": operation} for operation in ("READ", "DESCRIBE")]
    assert json.loads(_run(bootstrap, *add, "--dry-run").stdout) == rows
    assert admin.describe_acls() == []
    assert json.loads(_run(bootstrap, *add).stdout) == rows
    listed = json.loads(_run(bootstrap, "list", "--topic", "orders", "--match", "--json").stdout)
    assert sorted(listed, key=str) == sorted(rows, key=str)
    remove = ("remove", "--topic", "orders", "-o", "read", "--json")
    assert json.loads(_run(bootstrap, *remove, "--dry-run").stdout) == rows[:1]
    assert len(admin.describe_acls()) == 2
    assert json.loads(_run(bootstrap, *remove).stdout) == rows[:1]
    assert [rule.operation for rule in admin.describe_acls()] == ["DESCRIBE"]
    assert "no rule matches" in _run(bootstrap, *remove, exit_code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add", "--topic", "t"), "name a resource"),
        (("add", "-p", "a", "-o", "read", "--topic", "t", "--group", "g"), "one resource at a time"),
        (("add", "-p", "a", "-o", "write", "--group", "g"), "GROUP has no operation WRITE"),
        (("add", "-p", "a", "-o", "all", "--cluster", "--prefixed"), "--prefixed needs"),
        (("list", "--match"), "--match needs a name"),
        (("remove",), "whose rules to remove"),
    ],
    ids=str,
)
def test_what_a_command_lacks_is_said_in_one_sentence(
    bootstrap: str, admin: Admin, arguments: tuple[str, ...], says: str
) -> None:
    result = _run(bootstrap, *arguments, exit_code=2)
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_error_names_the_right_that_is_missing(bootstrap: str, admin: Admin) -> None:
    admin.create_topics("secrets", exist_ok=True)
    admin.create_acls(Acl("User:ANONYMOUS", "WRITE", "TOPIC", "secrets", permission="DENY"))
    refused: list[KafkaError] = []

    def is_refused() -> bool:
        """A broker of Kafka may have answered before it knows of the rule."""
        try:
            producer.send("secrets", value=b"value")
        except KafkaError as error:
            refused.append(error)
        return bool(refused)

    with Producer(bootstrap, delivery_timeout_ms=5_000) as producer:
        until(is_refused)
    assert refused[0].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "WRITE to produce" in str(refused[0])
    assert "oncelog acl add" in str(refused[0])
