"""Users, rules, quotas and tokens are what the records add up to, after a start and from a snapshot too."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.cluster.metadata_log import ClusterState
from oncelog.broker.cluster.metadata_snapshot import decode_snapshot, encode_snapshot
from oncelog.broker.cluster.security_state import SecurityState
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.access_control_entry_record import AccessControlEntryRecord
from oncelog.protocol.generated.client_quota_record import ClientQuotaRecord, EntityData
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord
from oncelog.protocol.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from oncelog.protocol.generated.remove_delegation_token_record import RemoveDelegationTokenRecord
from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from tests.fakes.broker import VirtualBroker

names = st.sampled_from(["a", "b"])
mechanisms = st.sampled_from([1, 2])
ids = st.sampled_from([UUID(int=1), UUID(int=2)])
entities = st.lists(
    st.builds(EntityData, entity_type=st.sampled_from(["user", "client-id"]), entity_name=st.none() | names),
    min_size=1,
    max_size=2,
    unique_by=lambda part: part.entity_type,
)
changes = st.lists(
    st.one_of(
        st.builds(UserScramCredentialRecord, name=names, mechanism=mechanisms, salt=st.binary(max_size=3)),
        st.builds(RemoveUserScramCredentialRecord, name=names, mechanism=mechanisms),
        st.builds(AccessControlEntryRecord, id=ids, resource_name=names),
        st.builds(RemoveAccessControlEntryRecord, id=ids),
        st.builds(ClientQuotaRecord, entity=entities, key=names, value=st.floats(1, 9), remove=st.booleans()),
        st.builds(DelegationTokenRecord, token_id=names, owner=names),
        st.builds(RemoveDelegationTokenRecord, token_id=names),
    ),
    max_size=20,
)


def shown(state: SecurityState) -> tuple[Any, ...]:
    return state.scram_credentials, state.acls, state.quotas, state.tokens


@given(changes)
def test_a_snapshot_of_any_history_adds_up_to_the_same_state(records: list[Any]) -> None:
    cluster = ClusterState()
    for offset, record in enumerate(records):
        cluster.replay(record, offset)
    again = ClusterState()
    for record in decode_snapshot(encode_snapshot(cluster.records(), 0, 0)):
        again.replay(record, 0)
    assert shown(again.security) == shown(cluster.security)
    assert len(list(again.security.records())) == len(list(cluster.security.records()))


def test_what_was_written_is_there_after_a_start() -> None:
    broker = VirtualBroker()
    record = AccessControlEntryRecord(id=UUID(int=1), resource_name="orders", principal="User:alice")
    written = broker.broker.metadata.write([record])
    broker.let_pass(100)
    assert written.done and written.error is None
    assert broker.killed().broker.metadata.state.security.acls == {record.id: record}


def test_a_watcher_is_notified_of_a_record_once_it_counts() -> None:
    state = SecurityState()
    seen: list[int] = []
    state.watch(lambda _: seen.append(len(state.tokens)))
    state.replay(DelegationTokenRecord(token_id="a"), 0)
    state.replay(RemoveDelegationTokenRecord(token_id="a"), 1)
    assert seen == [1, 0]


def test_any_other_record_is_refused() -> None:
    with pytest.raises(KafkaError, match="unknown metadata record"):
        ClusterState().replay(EntityData(), 7)
