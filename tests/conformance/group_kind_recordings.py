"""Conversations with Apache Kafka 4.3 about share groups (KIP-932) and streams groups (KIP-1071), as `recordings` has
the others."""

from collections.abc import Callable, Iterable
from functools import partial
from types import MappingProxyType
from typing import Any

from tests.clients.share_requests import SETTINGS
from tests.conformance.recording import Conversation, Differences, Recording
from tests.conformance.transcripts import (
    authorization_transcript,
    group_kind_rights_transcript,
    group_settings_transcript,
    share_delivery_transcript,
    share_fetch_transcript,
    share_group_transcript,
    share_log_transcript,
    share_offsets_transcript,
    share_state_transcript,
    streams_heartbeat_transcript,
)
from tests.conformance.two_clients import KafkaTwoClients, OurTwoClients
from tests.fakes.broker import VirtualBroker

_NONE: Differences = MappingProxyType({})


class _TwoClients(OurTwoClients):
    """A broker with share groups and streams groups, for two clients."""

    def __init__(self) -> None:
        self._broker = VirtualBroker(*authorization_transcript.SETTINGS, *SETTINGS)
        self.time = self._broker.time


def _with_wall(name: str, conversation: Conversation, *settings: str, differences: Differences = _NONE) -> Recording:
    return Recording(
        name,
        f"{name.replace(' ', '_')}_answers.json",
        conversation,
        differences,
        ours=partial(VirtualBroker, *SETTINGS, *settings),
        overrides=(*SETTINGS, *settings),
    )


def _of(
    name: str,
    conversation: Callable[[Any], Iterable[tuple[str, Any]]],
    *settings: str,
    differences: Differences = _NONE,
) -> Recording:
    return _with_wall(name, lambda broker, wall_ms: conversation(broker), *settings, differences=differences)


GROUP_KINDS = {
    recording.name: recording
    for recording in (
        Recording(
            "group kind rights",
            "group_kind_rights_answers.json",
            lambda broker, wall_ms: group_kind_rights_transcript.conversation(broker),
            group_kind_rights_transcript.DIFFERENCES,
            ours=_TwoClients,
            connected=KafkaTwoClients,
            overrides=(*authorization_transcript.SETTINGS, *SETTINGS),
            spelt=lambda answer: "\n".join(f"{rights}: {of}" for rights, of in answer.items()),
        ),
        _of(
            "group settings", group_settings_transcript.conversation, differences=group_settings_transcript.DIFFERENCES
        ),
        _of(
            "share delivery", share_delivery_transcript.conversation, differences=share_delivery_transcript.DIFFERENCES
        ),
        _of(
            "share fetch",
            share_fetch_transcript.conversation,
            *share_fetch_transcript.SETTINGS,
            differences=share_fetch_transcript.DIFFERENCES,
        ),
        _of(
            "share groups",
            share_group_transcript.conversation,
            *share_group_transcript.SETTINGS,
            differences=share_group_transcript.DIFFERENCES,
        ),
        _with_wall("share logs", share_log_transcript.conversation, differences=share_log_transcript.DIFFERENCES),
        _of("share offsets", share_offsets_transcript.conversation, differences=share_offsets_transcript.DIFFERENCES),
        _of("share state", share_state_transcript.conversation),
        _of(
            "streams heartbeats",
            streams_heartbeat_transcript.conversation,
            *streams_heartbeat_transcript.SETTINGS,
            differences=streams_heartbeat_transcript.DIFFERENCES,
        ),
    )
}
