"""Every conversation that was held with Apache Kafka 4.3 and written down, with the broker of ours that answers it.

`answers` has what Kafka said, each transcript where we answer otherwise on purpose. `transaction_recordings` has those
about transactions.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog

from oncelog.broker.observability.logging import LogLevel
from tests.conformance.features import at_levels
from tests.conformance.group_kind_recordings import GROUP_KINDS
from tests.conformance.lives import KafkaLives, OurLives
from tests.conformance.recording import Conversation, Recording
from tests.conformance.stored_segments import KafkaSegments, OurSegments
from tests.conformance.token_clients import KAFKA_SETTINGS, KafkaTokenClients, OurTokenClients
from tests.conformance.transaction_recordings import TRANSACTIONS
from tests.conformance.transcripts import (
    admin_configs_transcript,
    admin_topics_transcript,
    append_versions_transcript,
    authorization_transcript,
    broker_settings_transcript,
    cluster_transcript,
    consumer_group_transcript,
    data_transcript,
    first_metadata_transcript,
    frames_transcript,
    group_endings_transcript,
    group_remains_transcript,
    group_transcript,
    id_remains_transcript,
    leader_epoch_transcript,
    listener_configs_transcript,
    produce_transcript,
    quotas_transcript,
    retention_transcript,
    share_transcript,
    streams_group_transcript,
    tokens_transcript,
    two_names_transcript,
    two_phase_transcript,
)
from tests.conformance.two_clients import KafkaTwoClients, OurTwoClients
from tests.fakes.broker import VirtualBroker

_STEP_MS = 500
_UNSTABLE, _TWO_PHASE = "unstable.api.versions.enable=true", "transaction.two.phase.commit.enable=true"


def _with_changing_level() -> VirtualBroker:
    """A broker whose log has a level that can change."""
    virtual = VirtualBroker()
    level = LogLevel(structlog, "error")
    virtual.broker.logger = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[_drop], wrapper_class=level.logger_class
    )
    return virtual


def _drop(*_: object) -> Any:
    raise structlog.DropEvent


class _Stepping(VirtualBroker):
    """Takes its background turns while time passes."""

    def let_pass(self, delay_ms: int) -> None:
        for _ in range(0, delay_ms, _STEP_MS):
            self.time.advance(_STEP_MS)
            self.broker.transactions.step()
            self.broker.groups.step()
            self.time.settle()


class _Patient(_Stepping):
    """Its clean-ups come every ten minutes: a second of the conversation is half a minute here."""

    def let_pass(self, delay_ms: int) -> None:
        self.broker.logs.step()
        super().let_pass(delay_ms * 30)
        self.broker.logs.step()
        self.time.settle()


def _timeless(conversation: Callable[[Any], Iterable[tuple[str, Any]]]) -> Conversation:
    return lambda broker, wall_ms: conversation(broker)


def _of(name: str, file_name: str, transcript: Any, **rest: Any) -> Recording:
    return Recording(name, file_name, _timeless(transcript.conversation), transcript.DIFFERENCES, **rest)


def _two_phase(name: str, conversation: Conversation, *settings: str) -> Recording:
    """A recording about two-phase commit; with `oncelog.compat=kafka` the answers are Kafka's."""
    return Recording(
        name,
        "two_phase_answers.json",
        conversation,
        section=name,
        ours=partial(VirtualBroker, "oncelog.compat=kafka", *settings),
        features=("transaction.version=2",),
        overrides=settings,
    )


RECORDINGS = {
    recording.name: recording
    for recording in (
        _of("admin", "admin_answers.json", admin_topics_transcript),
        Recording(
            "appends by version",
            "append_version_answers.json",
            append_versions_transcript.conversation,
            append_versions_transcript.DIFFERENCES,
            features=("transaction.version=2",),
        ),
        Recording(
            "cluster",
            "cluster_answers.json",
            _timeless(cluster_transcript.conversation),
            ours=lambda: at_levels(VirtualBroker(), cluster_transcript.FEATURES_OFF),
            features=cluster_transcript.FEATURES_OFF,
            static_quorum=True,
            spelt=str,
        ),
        Recording(
            "authorization",
            "authorization_answers.json",
            _timeless(authorization_transcript.conversation),
            ours=OurTwoClients,
            connected=KafkaTwoClients,
            overrides=authorization_transcript.SETTINGS,
            static_quorum=True,
            spelt="\n".join,
        ),
        _of("configs", "config_answers.json", admin_configs_transcript, ours=_with_changing_level),
        _of(
            "broker settings",
            "broker_settings_answers.json",
            broker_settings_transcript,
            ours=partial(VirtualBroker, *broker_settings_transcript.SETTINGS),
        ),
        _of(
            "listener configs",
            "listener_config_answers.json",
            listener_configs_transcript,
            ours=partial(VirtualBroker, *listener_configs_transcript.SETTINGS),
            overrides=listener_configs_transcript.SETTINGS,
        ),
        *(
            Recording(
                name,
                "first_metadata_answers.json",
                _timeless(first_metadata_transcript.conversation),
                differences,
                ours=partial(VirtualBroker, *settings),
            )
            for name, differences, settings in (
                ("first metadata", first_metadata_transcript.AT_ONCE, ()),
                ("first metadata, as Kafka", {}, ("oncelog.compat=kafka",)),
            )
        ),
        _of("consumer groups", "consumer_group_answers.json", consumer_group_transcript),
        _of(
            "streams groups",
            "streams_group_answers.json",
            streams_group_transcript,
            ours=partial(VirtualBroker, *streams_group_transcript.SETTINGS),
            overrides=streams_group_transcript.SETTINGS,
        ),
        _of("data", "data_answers.json", data_transcript),
        Recording(
            "shared records",
            "share_answers.json",
            share_transcript.conversation,
            share_transcript.DIFFERENCES,
            ours=partial(VirtualBroker, *share_transcript.SETTINGS),
            overrides=share_transcript.SETTINGS,
        ),
        _of("quotas", "quota_answers.json", quotas_transcript),
        *(
            Recording(
                name,
                "token_answers.json",
                _timeless(conversation),
                differences,
                section=name,
                ours=partial(OurTokenClients, *settings),
                connected=KafkaTokenClients,
                overrides=(*KAFKA_SETTINGS, *settings),
            )
            for name, conversation, differences, settings in (
                ("tokens", tokens_transcript.conversation, tokens_transcript.DIFFERENCES, tokens_transcript.SETTINGS),
                ("tokens, switched off", tokens_transcript.without_key, {}, tokens_transcript.WITHOUT_KEY),
            )
        ),
        *(
            Recording(
                name,
                "two_names_answers.json",
                _timeless(two_names_transcript.conversation),
                differences,
                ours=partial(OurTokenClients, *two_names_transcript.SETTINGS, *compat),
                connected=KafkaTokenClients,
                overrides=(*KAFKA_SETTINGS, *two_names_transcript.SETTINGS),
            )
            for name, differences, compat in (
                ("two names", two_names_transcript.DIFFERENCES, ()),
                ("two names, as Kafka", two_names_transcript.IN_KAFKAS_WAY_TOO, ("oncelog.compat=kafka",)),
            )
        ),
        _of(
            "group endings",
            "group_endings_answers.json",
            group_endings_transcript,
            ours=partial(_Stepping, *group_endings_transcript.SETTINGS),
            overrides=group_endings_transcript.SETTINGS,
        ),
        _of(
            "group remains",
            "group_remains_answers.json",
            group_remains_transcript,
            ours=partial(_Stepping, *group_remains_transcript.SETTINGS),
            overrides=group_remains_transcript.SETTINGS,
        ),
        Recording(
            "id remains",
            "id_remains_answers.json",
            id_remains_transcript.conversation,
            ours=partial(
                _Patient,
                *id_remains_transcript.IDLE,
                "transaction.remove.expired.transaction.cleanup.interval.ms=600000",
            ),
            overrides=(*id_remains_transcript.IDLE, *id_remains_transcript.KAFKAS_INTERVALS),
        ),
        _of("groups", "group_answers.json", group_transcript),
        _of(
            "leader epochs",
            "leader_epoch_answers.json",
            leader_epoch_transcript,
            ours=OurLives,
            connected=KafkaLives,
        ),
        _of(
            "produce",
            "produce_answers.json",
            produce_transcript,
            ours=partial(VirtualBroker, "oncelog.record.validation=full"),
        ),
        _of(
            "frames",
            "frames_answers.json",
            frames_transcript,
            ours=partial(VirtualBroker, "oncelog.record.validation=full"),
            is_long=True,
        ),
        Recording(
            "retention",
            "retention_answers.json",
            retention_transcript.conversation,
            retention_transcript.DIFFERENCES,
            ours=partial(OurSegments, *retention_transcript.SETTINGS),
            connected=KafkaSegments,
            overrides=retention_transcript.KAFKA_SETTINGS,
        ),
        _two_phase("two-phase commit, switched off", two_phase_transcript.two_phase, _UNSTABLE),
        _two_phase("two-phase commit", two_phase_transcript.two_phase, _UNSTABLE, _TWO_PHASE),
        _two_phase("without __transaction_state", two_phase_transcript.without_state),
        *GROUP_KINDS.values(),
        *TRANSACTIONS.values(),
    )
}
