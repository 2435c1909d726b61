"""Access control entries are written once and durably, all of a request or none, and shown as they were written."""

from uuid import UUID

import pytest

from oncelog.protocol.acls import AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_acls_request import AclCreation, CreateAclsRequest
from oncelog.protocol.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest
from tests.fakes.broker import VirtualBroker

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


@pytest.fixture
def broker() -> VirtualBroker:
    return VirtualBroker(*SETTINGS)


def _entry(name: str = "orders", **others: object) -> AclCreation:
    fields = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**fields, **others})  # type: ignore[arg-type]


def _create(broker: VirtualBroker, *entries: AclCreation) -> list[str]:
    response = broker.ask(CreateAclsRequest(creations=entries), 3)
    return [ErrorCode(result.error_code).name for result in response.results]


def _names(broker: VirtualBroker) -> list[str]:
    response = broker.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
    return [resource.resource_name for resource in response.resources for _ in resource.acls]


def _delete(broker: VirtualBroker, *names: str | None) -> list[list[str]]:
    filters = [DeleteAclsFilter(1, name, 1, None, None, 1, 1) for name in names]
    results = broker.ask(DeleteAclsRequest(filters=filters), 3).filter_results
    return [[match.resource_name for match in result.matching_acls] for result in results]


def test_what_is_acknowledged_is_there_after_a_kill(broker: VirtualBroker) -> None:
    assert _create(broker, _entry("a"), _entry("b")) == ["NONE", "NONE"]
    assert _delete(broker, "a") == [["a"]]
    assert _names(broker.killed()) == ["b"]


def test_an_entry_is_written_once_however_often_it_is_created(broker: VirtualBroker) -> None:
    log = broker.broker.metadata.state.security
    assert _create(broker, _entry(), _entry()) == ["NONE", "NONE"]
    assert _create(broker, _entry()) == ["NONE"]
    assert len(log.acls) == 1


def test_an_entry_that_two_filters_select_is_removed_once_and_in_both_results(broker: VirtualBroker) -> None:
    _create(broker, _entry("a"), _entry("b"))
    assert _delete(broker, "a", None) == [["a"], ["a", "b"]]
    assert _names(broker) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (_entry(resource_type=ResourceType.CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (_entry(""), "Invalid empty resource name"),
        (_entry(resource_type=ResourceType.ANY), "Invalid resourceType ANY"),
        (_entry(resource_type=99), "Invalid resourceType UNKNOWN"),
        (_entry(resource_pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (_entry(operation=AclOperation.ANY), "Invalid operation ANY"),
        (_entry(operation=99), "Invalid operation UNKNOWN"),
        (_entry(permission_type=Permission.ANY), "Invalid permissionType ANY"),
        (_entry(principal="alice"), "no colon is present separating the principal type from the principal name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_entry_is_refused_and_the_others_are_written(
    broker: VirtualBroker, entry: AclCreation, message: str
) -> None:
    response = broker.ask(CreateAclsRequest(creations=[entry, _entry("good")]), 3)
    assert [ErrorCode(result.error_code) for result in response.results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert message in response.results[0].error_message
    assert _names(broker) == ["good"]


def test_a_code_of_zero_is_a_damaged_request_as_in_kafka(broker: VirtualBroker) -> None:
    for request in (
        CreateAclsRequest(creations=[_entry(operation=0)]),
        DeleteAclsRequest(filters=[DeleteAclsFilter(0, None, 1, None, None, 1, 1)]),
        DescribeAclsRequest(1, None, 1, None, None, 1, 0),
    ):
        assert broker.send(request, 3).is_closed


def test_more_than_a_request_may_change_changes_nothing(broker: VirtualBroker) -> None:
    half = 5_001
    errors = _create(broker, *(_entry(str(number)) for number in range(2 * half)))
    assert set(errors) == {"POLICY_VIOLATION"}
    for start in (0, half):
        _create(broker, *(_entry(str(number)) for number in range(start, start + half)))
    refused = broker.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(1, None, 1, None, None, 1, 1)]), 3)
    assert refused.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
    assert len(broker.broker.metadata.state.security.acls) == 2 * half


def test_ids_of_entries_are_different(broker: VirtualBroker) -> None:
    _create(broker, _entry("a"), _entry("b"))
    ids = set(broker.broker.metadata.state.security.acls)
    assert len(ids) == 2
    assert UUID(int=0) not in ids
