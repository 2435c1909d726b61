"""Every conversation that was held with Apache Kafka 4.3 and written down, with the broker of ours that answers it.

`answers` has what Kafka said, each transcript where we answer otherwise on purpose. `transaction_recordings` has those
about transactions.
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from oncelog.broker.observability.logging import LogLevel
from tests.clients.share_requests import SETTINGS as SHARE_STATE
from tests.conformance.features import at_levels
from tests.conformance.lives import KafkaLives, OurLives
from tests.conformance.recording import Conversation, Differences, Recording
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
    feature_levels_transcript,
    first_metadata_transcript,
    frames_transcript,
    group_endings_transcript,
    group_kind_rights_transcript,
    group_remains_transcript,
    group_settings_transcript,
    group_transcript,
    id_remains_transcript,
    leader_epoch_transcript,
    listener_configs_transcript,
    produce_transcript,
    quotas_transcript,
    retention_transcript,
    setting_names_transcript,
    share_delivery_transcript,
    share_fetch_transcript,
    share_group_transcript,
    share_log_transcript,
    share_offsets_transcript,
    share_state_transcript,
    share_transcript,
    streams_group_transcript,
    streams_heartbeat_transcript,
    tokens_transcript,
    two_names_transcript,
    two_phase_transcript,
)
from tests.conformance.two_clients import KafkaTwoClients, OurTwoClients
from tests.fakes.broker import VirtualBroker

_STEP_MS = 500
_UNSTABLE, _TWO_PHASE_COMMIT = "unstable.api.versions.enable=true", "transaction.two.phase.commit.enable=true"


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


def _started_with_a_file(*lines: str) -> VirtualBroker:
    with TemporaryDirectory() as directory:
        file = Path(directory, "server.properties")
        file.write_text("\n".join(lines))
        return VirtualBroker(file=file)


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


def _held(
    name: str,
    answers: str,
    conversation: Callable[..., Any],
    differences: Differences | None = None,
    *,
    settings: Sequence[str] = (),
    ours_alone: Sequence[str] = (),
    kafkas_alone: Sequence[str] = (),
    broker: Callable[..., Any] = VirtualBroker,
    **rest: Any,
) -> Recording:
    """A recording; its conversation may take the wall time, and its settings are those of both brokers."""
    takes_time = len(signature(conversation).parameters) == 2
    held: Conversation = conversation if takes_time else lambda asked, wall_ms: conversation(asked)
    return Recording(
        name,
        f"{answers}_answers.json",
        held,
        differences or {},
        ours=partial(broker, *settings, *ours_alone),
        overrides=(*settings, *kafkas_alone),
        **rest,
    )


def _of(name: str, answers: str, transcript: Any, **rest: Any) -> Recording:
    """The recording of a transcript's only conversation, with its settings."""
    settings = {"settings": getattr(transcript, "SETTINGS", ())} if "settings" not in rest else {}
    return _held(name, answers, transcript.conversation, getattr(transcript, "DIFFERENCES", None), **settings, **rest)


def _of_group_kinds(name: str, transcript: Any, **rest: Any) -> Recording:
    """About share groups (KIP-932) and streams groups (KIP-1071)."""
    settings = (*SHARE_STATE, *getattr(transcript, "SETTINGS", ()))
    return _of(name, name.replace(" ", "_"), transcript, settings=settings, **rest)


def _at_levels_of_the_cluster() -> VirtualBroker:
    return at_levels(VirtualBroker(), cluster_transcript.FEATURES_OFF)


def _rights(answer: dict[str, str]) -> str:
    return "\n".join(f"{rights}: {of}" for rights, of in answer.items())


_TRANSACTIONS_2 = ("transaction.version=2",)
_AS_KAFKA = ("oncelog.compat=kafka",)
_VALIDATING = ("oncelog.record.validation=full",)
_TWO_PHASE = {"ours_alone": _AS_KAFKA, "features": _TRANSACTIONS_2}
_TOKENS = {"broker": OurTokenClients, "connected": KafkaTokenClients, "kafkas_alone": KAFKA_SETTINGS}
_TWO_CLIENTS = {"broker": OurTwoClients, "connected": KafkaTwoClients}
_REMOVAL_INTERVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"


def _all() -> Sequence[Recording]:
    two_phase, names = two_phase_transcript.two_phase, two_names_transcript
    first, tokens, remains = first_metadata_transcript, tokens_transcript, id_remains_transcript
    setting_names = setting_names_transcript
    file_of_kafka = {"settings": setting_names.LINES, "broker": _started_with_a_file}
    levels = feature_levels_transcript
    return (
        _of("admin", "admin", admin_topics_transcript),
        _of("appends by version", "append_version", append_versions_transcript, features=_TRANSACTIONS_2),
        _held(
            "cluster",
            "cluster",
            cluster_transcript.conversation,
            broker=_at_levels_of_the_cluster,
            features=cluster_transcript.FEATURES_OFF,
            static_quorum=True,
            spelt=str,
        ),
        _held(
            "authorization",
            "authorization",
            authorization_transcript.conversation,
            settings=authorization_transcript.SETTINGS,
            static_quorum=True,
            spelt="\n".join,
            **_TWO_CLIENTS,
        ),
        _of("configs", "config", admin_configs_transcript, broker=_with_changing_level),
        _of(
            "broker settings",
            "broker_settings",
            broker_settings_transcript,
            settings=(),
            ours_alone=broker_settings_transcript.SETTINGS,
        ),
        _of("listener configs", "listener_config", listener_configs_transcript),
        _held("first metadata", "first_metadata", first.conversation, first.AT_ONCE),
        _held("first metadata, as Kafka", "first_metadata", first.conversation, ours_alone=_AS_KAFKA),
        _of("consumer groups", "consumer_group", consumer_group_transcript),
        _of("streams groups", "streams_group", streams_group_transcript),
        _of("data", "data", data_transcript),
        _of("shared records", "share", share_transcript),
        _of("quotas", "quota", quotas_transcript),
        _of("tokens", "token", tokens, section="tokens", **_TOKENS),
        _held(
            "tokens, switched off",
            "token",
            tokens.without_key,
            settings=tokens.WITHOUT_KEY,
            section="tokens, switched off",
            **_TOKENS,
        ),
        _of("two names", "two_names", names, **_TOKENS),
        _held(
            "two names, as Kafka",
            "two_names",
            names.conversation,
            names.IN_KAFKAS_WAY_TOO,
            settings=names.SETTINGS,
            ours_alone=_AS_KAFKA,
            **_TOKENS,
        ),
        _of("group endings", "group_endings", group_endings_transcript, broker=_Stepping),
        _of("group remains", "group_remains", group_remains_transcript, broker=_Stepping),
        _held(
            "id remains",
            "id_remains",
            remains.conversation,
            settings=remains.IDLE,
            ours_alone=(f"{_REMOVAL_INTERVAL}=600000",),
            kafkas_alone=remains.KAFKAS_INTERVALS,
            broker=_Patient,
        ),
        _of("groups", "group", group_transcript),
        _of("leader epochs", "leader_epoch", leader_epoch_transcript, broker=OurLives, connected=KafkaLives),
        _of("produce", "produce", produce_transcript, ours_alone=_VALIDATING),
        _held(
            "feature levels",
            "feature_levels",
            levels.conversation,
            levels.DIFFERENCES,
            section="levels",
            static_quorum=True,
        ),
        _held(
            "protocols at the start", "feature_levels", levels.at_start, settings=levels.AT_START, section="at start"
        ),
        _of("frames", "frames", frames_transcript, ours_alone=_VALIDATING, is_long=True),
        _of(
            "retention",
            "retention",
            retention_transcript,
            kafkas_alone=retention_transcript.KAFKAS_INTERVALS,
            broker=OurSegments,
            connected=KafkaSegments,
        ),
        *(
            _held(name, "two_phase", conversation, settings=settings, section=name, **_TWO_PHASE)
            for name, conversation, settings in (
                ("two-phase commit, switched off", two_phase, (_UNSTABLE,)),
                ("two-phase commit", two_phase, (_UNSTABLE, _TWO_PHASE_COMMIT)),
                ("without __transaction_state", two_phase_transcript.without_state, ()),
            )
        ),
        _held(
            "group kind rights",
            "group_kind_rights",
            group_kind_rights_transcript.conversation,
            group_kind_rights_transcript.DIFFERENCES,
            settings=(*authorization_transcript.SETTINGS, *SHARE_STATE),
            spelt=_rights,
            **_TWO_CLIENTS,
        ),
        _of_group_kinds("group settings", group_settings_transcript),
        _of_group_kinds("share delivery", share_delivery_transcript),
        _of_group_kinds("share fetch", share_fetch_transcript),
        _of_group_kinds("share groups", share_group_transcript),
        _of_group_kinds("share logs", share_log_transcript),
        _of_group_kinds("share offsets", share_offsets_transcript),
        _of_group_kinds("share state", share_state_transcript),
        _of_group_kinds("streams heartbeats", streams_heartbeat_transcript),
        *(
            _held(name, "setting_names", conversation, differences, section=name, **rest)
            for name, conversation, differences, rest in (
                ("client metrics", setting_names.client_metrics, setting_names.OTHER_PATTERNS, {}),
                ("blanks", setting_names.blanks, {}, {}),
                ("a file of Kafka", setting_names.file_of_kafka, setting_names.OTHER_IN_THE_FILE, file_of_kafka),
            )
        ),
        *TRANSACTIONS.values(),
    )


RECORDINGS = {recording.name: recording for recording in _all()}
