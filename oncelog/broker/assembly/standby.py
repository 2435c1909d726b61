"""Builds the broker of a node that stands by: it answers from the metadata log of the leader, and changes nothing.

Owns: which parts it has. It is a broker without records, in memory, whose metadata log is another's: handlers find
there what they find in a leader. Does not own: how that log is followed (`succession.follower`), what the rest is
answered (`broker.handlers.standby`), when it begins to lead: another broker takes its place then.
"""

from functools import partial
from typing import Any

from oncelog.broker.assembly.broker import Stored, make_broker, make_topics, put_around_handlers
from oncelog.broker.assembly.coordinators import load_coordinators
from oncelog.broker.assembly.storage import METADATA_LOG_CONFIG, FileReports
from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import MetadataLog, ResourceType
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.cluster.nodes import Nodes
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.fetching.purgatory import FetchPurgatory
from oncelog.broker.handlers import standby
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LOGIN_SECRET
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.memory.store import MemoryLogStore
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.generated.config_record import ConfigRecord
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID


def assemble_standby(
    config: BrokerConfig,
    system: System,
    log: Any,
    follower: MetadataFollower,
    nodes: Nodes,
    leader_node_id: int,
    leader: LeaderSeen,
) -> Sliced[Broker]:
    """Assemble a broker that stands by. `follower` is loaded, and its records take effect as it follows; `leader` says
    when answers may name the leader."""
    store = MemoryLogStore(system.clock)
    if follower.login_secret is not None:
        store.blobs.write_atomically(LOGIN_SECRET, follower.login_secret)
    slices, metrics, purgatory = Slices(system.scheduler), Metrics(), FetchPurgatory(system.scheduler)
    rounds = Rounds(system.scheduler, store)
    logs = LogManager(store, rounds, purgatory, system.clock)
    metadata_log = yield from logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)
    metadata = MetadataLog(metadata_log, system.clock, SnapshotFiles(store.blobs, ""))
    metadata.state = follower.state
    leadership = Leadership(config.get_int("node.id"), metadata, system.scheduler)
    leadership.leader_node_id, leadership.is_ours = leader_node_id, False
    live_config = LiveConfig(config, metadata, leadership.node_id)
    topics = make_topics(config, live_config, system, metadata, leadership, logs, slices)
    stored = Stored(slices, metrics, purgatory, rounds, logs, metadata, leadership, live_config, topics, nodes)
    broker, coordinators = make_broker(config, system, log, None, stored)
    broker.put_around_handlers(partial(standby.around_handler, leader))
    put_around_handlers(broker, None)
    load_coordinators(config, coordinators, rounds.durability, FileReports(log, metrics), log)

    def on_record(record: object) -> None:
        if isinstance(record, ConfigRecord) and record.resource_type != ResourceType.TOPIC:
            live_config.on_replayed(record.resource_type, record.resource_name)

    follower.on_record = on_record
    return broker
