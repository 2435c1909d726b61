"""Conversations with Apache Kafka 4.3 about share groups (KIP-932) and streams groups (KIP-1071), as `recordings` has
the others."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.clients.share_requests import SETTINGS
from tests.conformance.recording import Recording
from tests.conformance.transcripts import (
    share_delivery_transcript,
    share_fetch_transcript,
    share_group_transcript,
    share_offsets_transcript,
    share_state_transcript,
)
from tests.fakes.broker import VirtualBroker


def _of(name: str, conversation: Callable[[Any], Iterable[tuple[str, Any]]], *settings: str, **rest: Any) -> Recording:
    return Recording(
        name,
        f"{name.replace(' ', '_')}_answers.json",
        lambda broker, wall_ms: conversation(broker),
        ours=partial(VirtualBroker, *SETTINGS, *settings),
        overrides=(*SETTINGS, *settings),
        **rest,
    )


GROUP_KINDS = {
    recording.name: recording
    for recording in (
        _of("share delivery", share_delivery_transcript.conversation),
        _of("share fetch", share_fetch_transcript.conversation, *share_fetch_transcript.SETTINGS),
        _of("share groups", share_group_transcript.conversation, *share_group_transcript.SETTINGS),
        _of("share offsets", share_offsets_transcript.conversation),
        _of("share state", share_state_transcript.conversation),
    )
}
