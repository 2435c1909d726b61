"""A conversation about the cluster, and about all that one node without security has nothing behind.

Owns: the questions. An answer counts whole, but for times, sizes and ids, which no two brokers have in common.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from oncelog.protocol.generated import add_raft_voter_request as add_voter
from oncelog.protocol.generated import alter_client_quotas_request as alter_quotas
from oncelog.protocol.generated import alter_partition_reassignments_request as reassign
from oncelog.protocol.generated import alter_replica_log_dirs_request as move_dirs
from oncelog.protocol.generated import alter_share_group_offsets_request as alter_share_offsets
from oncelog.protocol.generated import alter_user_scram_credentials_request as alter_scram
from oncelog.protocol.generated import create_acls_request as create_acls
from oncelog.protocol.generated import create_delegation_token_request as create_token
from oncelog.protocol.generated import delete_acls_request as delete_acls
from oncelog.protocol.generated import delete_share_group_offsets_request as delete_share_offsets
from oncelog.protocol.generated import delete_share_group_state_request as delete_share_state
from oncelog.protocol.generated import describe_acls_request as describe_acls
from oncelog.protocol.generated import describe_client_quotas_request as describe_quotas
from oncelog.protocol.generated import describe_cluster_request as describe_cluster
from oncelog.protocol.generated import describe_delegation_token_request as describe_token
from oncelog.protocol.generated import describe_groups_request as describe_groups
from oncelog.protocol.generated import describe_log_dirs_request as describe_dirs
from oncelog.protocol.generated import describe_quorum_request as describe_quorum
from oncelog.protocol.generated import describe_share_group_offsets_request as describe_share_offsets
from oncelog.protocol.generated import describe_user_scram_credentials_request as describe_scram
from oncelog.protocol.generated import elect_leaders_request as elect
from oncelog.protocol.generated import expire_delegation_token_request as expire_token
from oncelog.protocol.generated import find_coordinator_request as find_coordinator
from oncelog.protocol.generated import initialize_share_group_state_request as initialize_share_state
from oncelog.protocol.generated import list_partition_reassignments_request as list_reassignments
from oncelog.protocol.generated import list_transactions_request as list_transactions
from oncelog.protocol.generated import read_share_group_state_request as read_share_state
from oncelog.protocol.generated import read_share_group_state_summary_request as read_share_summary
from oncelog.protocol.generated import remove_raft_voter_request as remove_voter
from oncelog.protocol.generated import renew_delegation_token_request as renew_token
from oncelog.protocol.generated import sasl_authenticate_request as sasl_authenticate
from oncelog.protocol.generated import sasl_handshake_request as sasl_handshake
from oncelog.protocol.generated import share_acknowledge_request as share_acknowledge
from oncelog.protocol.generated import share_fetch_request as share_fetch
from oncelog.protocol.generated import share_group_describe_request as share_describe
from oncelog.protocol.generated import share_group_heartbeat_request as share_heartbeat
from oncelog.protocol.generated import streams_group_describe_request as streams_describe
from oncelog.protocol.generated import streams_group_heartbeat_request as streams_heartbeat
from oncelog.protocol.generated import unregister_broker_request as unregister
from oncelog.protocol.generated import write_share_group_state_request as write_share_state
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.message import Message

Told = Iterator[tuple[str, str]]
TOPIC = "cluster-topic"
SOME_ID = UUID(int=7)


class Broker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...


def conversation(broker: Broker) -> Told:
    """Every question in every version of it, and the answer; `broker` must be fresh."""
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    settle(broker)
    for part in (cluster, leaders, without_security, quotas, scram, without_peers, without_share_groups, transactions):
        yield from asked(broker, part)
    yield from moves_within(broker)
    make_coordinator(broker)
    yield from asked(broker, groups)


def asked(broker: Broker, part: Callable[[], "Questions"]) -> Told:
    for name, request, versions in part():
        for version in versions:
            yield f"{part.__name__}: {name}, version {version}", shown(broker.ask(request, version))


def settle(broker: Broker) -> None:
    """Kafka's broker learns of a topic a moment after its controller."""
    wanted = describe_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=[0, 1])
    request = describe_dirs.DescribeLogDirsRequest(topics=[wanted])
    while sum(len(topic.partitions) for topic in broker.ask(request, 4).results[0].topics) < 2:
        broker.let_pass(100)


def make_coordinator(broker: Broker) -> None:
    broker.ask(find_coordinator.FindCoordinatorRequest(coordinator_keys=["group"]), 4)
    while broker.ask(describe_groups.DescribeGroupsRequest(groups=["group"]), 5).groups[0].error_code:
        broker.let_pass(100)


def moves_within(broker: Broker) -> Told:
    """Moves to the directory where everything is already, under the name that the broker gives it."""
    path = broker.ask(describe_dirs.DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir
    for name, index in ((TOPIC, 0), (TOPIC, 7), ("nowhere", 0)):
        topic = move_dirs.AlterReplicaLogDirTopic(name=name, partitions=[index])
        request = move_dirs.AlterReplicaLogDirsRequest(dirs=[move_dirs.AlterReplicaLogDir(path=path, topics=[topic])])
        yield f"moves_within: {name}-{index}", shown(broker.ask(request, 2))


_VOLATILE = re.compile(
    r"(throttle_time_ms|total_bytes|usable_bytes|partition_size|port|cluster_id|log_dir|leader_epoch|high_watermark"
    r"|log_end_offset|host|last_fetch_timestamp|last_caught_up_timestamp|replica_directory_id)=(-?\d+|'[^']*'|UUID\('[^']*'\))"
)

_NOT_KAFKAS = ", leading_since_timestamp=-1, leading_reason='', rounds_behind=-1"
"""Our own tagged fields of a replica, which a broker that is alone leaves out."""
_OUR_CLUSTER = re.compile(r'the cluster id "[^"]*"')


def shown(answer: Any) -> str:
    text = _VOLATILE.sub(r"\1=...", repr(answer).replace(_NOT_KAFKAS, ""))
    text = text.replace("name='CONTROLLER'", "name='PLAINTEXT'")
    return _OUR_CLUSTER.sub("the cluster id ...", text)


Questions = Iterator[tuple[str, Message, range]]


def cluster() -> Questions:
    for asks in (False, True):
        yield (
            f"cluster, operations {asks}",
            describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=asks),
            range(3),
        )
    for endpoint in (0, 2, 3):
        yield (
            f"endpoints of type {endpoint}",
            describe_cluster.DescribeClusterRequest(endpoint_type=endpoint),
            range(1, 3),
        )
    yield "fenced brokers", describe_cluster.DescribeClusterRequest(include_fenced_brokers=True), range(2, 3)
    wanted = [
        describe_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=[0, 1, 5]),
        describe_dirs.DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    yield "log dirs of some", describe_dirs.DescribeLogDirsRequest(topics=wanted), range(1, 6)
    yield "log dirs of none", describe_dirs.DescribeLogDirsRequest(topics=[]), range(1, 6)
    for topic, partition in (("__cluster_metadata", 0), ("__cluster_metadata", 1), (TOPIC, 0)):
        data = describe_quorum.TopicData(
            topic_name=topic, partitions=[describe_quorum.PartitionData(partition_index=partition)]
        )
        yield f"quorum of {topic}-{partition}", describe_quorum.DescribeQuorumRequest(topics=[data]), range(3)
    yield "quorum of nothing", describe_quorum.DescribeQuorumRequest(topics=[]), range(3)
    keys = [f"group:{SOME_ID}:0", "group"]
    yield (
        "coordinator of a share group",
        find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=keys),
        range(5, 7),
    )
    yield (
        "coordinator of an unknown type",
        find_coordinator.FindCoordinatorRequest(key_type=3, coordinator_keys=["group"]),
        range(4, 7),
    )


def leaders() -> Questions:
    some = [
        elect.TopicPartitions(topic=TOPIC, partitions=[0, 1, 7]),
        elect.TopicPartitions(topic="nowhere", partitions=[0]),
    ]
    for kind in (0, 1):
        yield f"election {kind} of some", elect.ElectLeadersRequest(election_type=kind, topic_partitions=some), range(3)
        yield f"election {kind} of all", elect.ElectLeadersRequest(election_type=kind, topic_partitions=None), range(3)
    yield "election of none", elect.ElectLeadersRequest(topic_partitions=[]), range(3)
    yield "election of an unknown type", elect.ElectLeadersRequest(election_type=9, topic_partitions=some), range(1, 3)
    yield "reassignments, all", list_reassignments.ListPartitionReassignmentsRequest(topics=None), range(1)
    named = [list_reassignments.ListPartitionReassignmentsTopics(name=TOPIC, partition_indexes=[0, 9])]
    yield "reassignments, some", list_reassignments.ListPartitionReassignmentsRequest(topics=named), range(1)
    for replicas in (None, [1], [2], [1, 2], [], [1, 1], [-1]):
        partitions = [
            reassign.ReassignablePartition(partition_index=0, replicas=replicas),
            reassign.ReassignablePartition(partition_index=9, replicas=replicas),
        ]
        yield (
            f"reassign to {replicas}",
            reassign.AlterPartitionReassignmentsRequest(
                topics=[reassign.ReassignableTopic(name=TOPIC, partitions=partitions)]
            ),
            range(2),
        )


def without_security() -> Questions:
    yield "sasl handshake", sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), range(2)
    yield "sasl authenticate", sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0user\0word"), range(3)
    yield (
        "describe acls",
        describe_acls.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
        range(1, 4),
    )
    creations = [
        create_acls.AclCreation(
            resource_type=2, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3
        )
        for name in ("one", "two")
    ]
    yield "create acls", create_acls.CreateAclsRequest(creations=creations), range(1, 4)
    filters = [delete_acls.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)] * 2
    yield "delete acls", delete_acls.DeleteAclsRequest(filters=filters), range(1, 4)
    yield (
        "create token",
        create_token.CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1
        ),
        range(3, 4),
    )
    yield "create token", create_token.CreateDelegationTokenRequest(max_lifetime_ms=-1), range(1, 3)
    yield "renew token", renew_token.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1), range(1, 3)
    yield "expire token", expire_token.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=1), range(1, 3)
    yield "describe tokens", describe_token.DescribeDelegationTokenRequest(owners=None), range(1, 4)


def quotas() -> Questions:
    """Kafka does set a quota, so only what it refuses is asked, and what changes nothing."""
    for components in (
        [],
        [("user", 0, "x")],
        [("user", 0, None)],
        [("user", 1, None)],
        [("user", 1, "x")],
        [("user", 2, None)],
        [("user", 2, "x")],
        [("user", 7, "x")],
        [("user", 0, "x"), ("user", 7, None)],
        [("user", 0, "x"), ("client-id", 2, None)],
        [("ip", 0, "10.0.0.1"), ("user", 0, "x")],
        [("planet", 7, None)],
        [("", 0, "x")],
    ):
        parts = [
            describe_quotas.ComponentData(entity_type=kind, match_type=how, match=x) for kind, how, x in components
        ]
        yield f"describe {components}", describe_quotas.DescribeClientQuotasRequest(components=parts), range(2)
    rate, set_rate = ("producer_byte_rate", 0.0, True), ("producer_byte_rate", 5.0, False)
    entities: Sequence[tuple[Mapping[str, str | None], Sequence[tuple[str, float, bool]]]] = (
        ({"user": "u"}, [rate]),
        ({"user": None}, [rate]),
        ({"user": "u", "client-id": "c"}, [rate]),
        ({"ip": "10.0.0.1"}, [("connection_creation_rate", 0.0, True)]),
        ({"user": "u"}, []),
        ({"user": "u"}, [("nonsense", 0.0, True)]),
        ({"user": "u"}, [rate, rate]),
        ({"user": "u"}, [rate, set_rate]),
        ({"user": ""}, [rate]),
        ({"client-id": ""}, [set_rate]),
        ({"user": "u", "planet": "p"}, [set_rate]),
        ({"user": "u", "ip": "10.0.0.1"}, [rate]),
        ({}, [set_rate]),
    )
    for entity, operations in entities:
        parts_of_entity = [alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        ops = [alter_quotas.OpData(key=key, value=value, remove=removes) for key, value, removes in operations]
        entry = alter_quotas.EntryData(entity=parts_of_entity, ops=ops)
        yield f"alter {entity} by {operations}", alter_quotas.AlterClientQuotasRequest(entries=[entry]), range(2)
        if operations == [rate]:
            twice = alter_quotas.AlterClientQuotasRequest(entries=[entry, entry])
            yield f"alter {entity} twice by {operations}", twice, range(2)


def scram() -> Questions:
    """Refused changes, then users that are added, changed and deleted; their descriptions would race with Kafka's
    controller.
    """
    some = describe_scram.UserName(name="user")
    yield "describe one", describe_scram.DescribeUserScramCredentialsRequest(users=[some]), range(1)
    yield "describe one twice", describe_scram.DescribeUserScramCredentialsRequest(users=[some] * 2), range(1)
    yield "describe all", describe_scram.DescribeUserScramCredentialsRequest(users=None), range(1)
    for deleted, upserted in (
        ([("user", 1)], []),
        ([("user", 1), ("user", 2)], []),
        ([("user", 9)], []),
        ([("", 1)], []),
        ([("user", 1)], [("user", 1, 8192)]),
        ([], [("user", 1, 8192), ("user", 2, 8192)]),
        ([], [("", 1, 8192)]),
        ([], [("user", 0, 8192)]),
        ([], [("user", 3, 1)]),
        ([], [("user", 1, 4095)]),
        ([], [("user", 2, 16385)]),
        ([], [("other", 2, 16384), ("kept", 1, 4096)]),
        ([("kept", 1)], [("kept", 1, 8192)]),
        ([("kept", 1)], [("kept", 2, 8192)]),
        ([("kept", 1), ("kept", 1)], []),
        ([], [("kept", 1, 4096), ("", 1, 4096)]),
        ([("kept", 1)], [("other", 1, 4096)]),
        ([("kept", 1), ("other", 1)], []),
        ([("other", 2), ("other", 1)], []),
        ([("kept", 2)], []),
    ):
        request = alter_scram.AlterUserScramCredentialsRequest(
            deletions=[alter_scram.ScramCredentialDeletion(name=name, mechanism=how) for name, how in deleted],
            upsertions=[
                alter_scram.ScramCredentialUpsertion(
                    name=name, mechanism=how, iterations=count, salt=b"salt", salted_password=b"password"
                )
                for name, how, count in upserted
            ],
        )
        yield f"delete {deleted}, change {upserted}", request, range(1)


def without_peers() -> Questions:
    yield (
        "move to another directory",
        move_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                move_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[
                        move_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0]),
                        move_dirs.AlterReplicaLogDirTopic(name="nowhere", partitions=[0]),
                    ],
                )
            ]
        ),
        range(1, 3),
    )
    yield "unregister another broker", unregister.UnregisterBrokerRequest(broker_id=9), range(1)
    for cluster_id, voter_id, directory_id in (
        (None, 9, SOME_ID),
        ("other", 9, SOME_ID),
        ("", 9, SOME_ID),
        ("other", -1, SOME_ID),
        (None, -1, SOME_ID),
        (None, 1, UUID(int=0)),
    ):
        voter = f"voter {voter_id} in {directory_id} of {cluster_id}"
        adds = add_voter.AddRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            timeout_ms=1_000,
            listeners=[add_voter.Listener(name="CONTROLLER", host="controller.example", port=9093)],
        )
        yield f"add {voter}", adds, range(2)
        removes = remove_voter.RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )
        yield f"remove {voter}", removes, range(1)


def without_share_groups() -> Questions:
    yield (
        "heartbeat",
        share_heartbeat.ShareGroupHeartbeatRequest(
            group_id="share", member_id="m", member_epoch=0, subscribed_topic_names=[TOPIC]
        ),
        range(1, 2),
    )
    yield "describe", share_describe.ShareGroupDescribeRequest(group_ids=["share", "other"]), range(1, 2)
    yield "fetch", share_fetch.ShareFetchRequest(group_id="share", member_id="m", max_wait_ms=0), range(1, 3)
    yield (
        "acknowledge",
        share_acknowledge.ShareAcknowledgeRequest(group_id="share", member_id="m", share_session_epoch=1),
        range(1, 3),
    )
    wanted = describe_share_offsets.DescribeShareGroupOffsetsRequestGroup(
        group_id="share",
        topics=[describe_share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0])],
    )
    yield "describe offsets", describe_share_offsets.DescribeShareGroupOffsetsRequest(groups=[wanted]), range(2)
    partition = alter_share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    altered = alter_share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[partition])
    yield (
        "alter offsets",
        alter_share_offsets.AlterShareGroupOffsetsRequest(group_id="share", topics=[altered]),
        range(1),
    )
    deleted = delete_share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
    yield (
        "delete offsets",
        delete_share_offsets.DeleteShareGroupOffsetsRequest(group_id="share", topics=[deleted]),
        range(1),
    )
    yield (
        "initialize state",
        initialize_share_state.InitializeShareGroupStateRequest(
            group_id="share",
            topics=[
                initialize_share_state.InitializeStateData(
                    topic_id=SOME_ID, partitions=[initialize_share_state.PartitionData()]
                )
            ],
        ),
        range(1),
    )
    yield (
        "read state",
        read_share_state.ReadShareGroupStateRequest(
            group_id="share",
            topics=[read_share_state.ReadStateData(topic_id=SOME_ID, partitions=[read_share_state.PartitionData()])],
        ),
        range(1),
    )
    yield (
        "write state",
        write_share_state.WriteShareGroupStateRequest(
            group_id="share",
            topics=[write_share_state.WriteStateData(topic_id=SOME_ID, partitions=[write_share_state.PartitionData()])],
        ),
        range(2),
    )
    yield (
        "delete state",
        delete_share_state.DeleteShareGroupStateRequest(
            group_id="share",
            topics=[
                delete_share_state.DeleteStateData(topic_id=SOME_ID, partitions=[delete_share_state.PartitionData()])
            ],
        ),
        range(1),
    )
    yield (
        "read summary",
        read_share_summary.ReadShareGroupStateSummaryRequest(
            group_id="share",
            topics=[
                read_share_summary.ReadStateSummaryData(
                    topic_id=SOME_ID, partitions=[read_share_summary.PartitionData()]
                )
            ],
        ),
        range(2),
    )
    yield (
        "streams heartbeat",
        streams_heartbeat.StreamsGroupHeartbeatRequest(group_id="streams", member_id="m", member_epoch=0),
        range(1),
    )
    yield "streams describe", streams_describe.StreamsGroupDescribeRequest(group_ids=["streams"]), range(1)


def groups() -> Questions:
    for asks in (False, True):
        yield (
            f"one that is not there, operations {asks}",
            describe_groups.DescribeGroupsRequest(groups=["group"], include_authorized_operations=asks),
            range(3, 7),
        )


def transactions() -> Questions:
    for pattern in (None, "", "a.*", "(", "(?=a)", "(a)\\1"):
        yield (
            f"list by pattern {pattern}",
            list_transactions.ListTransactionsRequest(transactional_id_pattern=pattern),
            range(2, 3),
        )


FEATURES_OFF = ("share.version=0", "streams.version=0")
"""The features with which Kafka is formatted for the recording."""
