"""Faults to plant where partitions come and go: the simulation must notice each of them.

Owns: the list. Each is a small change to one function, as a mistake in it would be.
"""

from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.log import rounds
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import ALL_DURABLE, RoundEnds, Verdicts
from oncelog.broker.turns.completion import Completion
from tests.fakes.shared_store import SharedStore
from tests.simulation.log_faults import Plant


def take_no_notice_of_a_refusal(patch: pytest.MonkeyPatch) -> None:
    def advanced(self: Rounds, ends: RoundEnds, on_ended: Any, committed: Completion[Verdicts]) -> None:
        _judge(self, ends, on_ended, Completion.of(ALL_DURABLE))

    _judge = Rounds._on_committed
    patch.setattr(Rounds, "_on_committed", advanced)


def acknowledge_before_the_statement(patch: pytest.MonkeyPatch) -> None:
    """Statements take effect in their order, as on one connection: without that, a log's batches change places, which
    no early acknowledgement does to them.
    """
    commit = SharedStore.commit

    def hasty(self: SharedStore, ends: RoundEnds, append_count: int) -> None:
        before, ended = self._committing, Completion[Verdicts]()
        self._committing = ended

        def in_turn(_: Completion[Verdicts]) -> None:
            latest = self._committing
            commit(self, ends, append_count).then(lambda _: ended.complete(ALL_DURABLE))
            self._committing = latest

        before.then(in_turn)

    patch.setattr(SharedStore, "commit", hasty)


def believe_that_rounds_are_whole(patch: pytest.MonkeyPatch) -> None:
    """A marker may be refused while its decision is durable."""
    patch.setattr(SharedStore, "rounds_are_whole", True)


def lead_again_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetadataLog, "change_leader", lambda *_: Completion.of(None))


def open_a_partition_twice(patch: pytest.MonkeyPatch) -> None:
    """One that is lost and gained again while it is opened."""

    def hasty(self: LogManager, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Any:
        log = self.get(topic, partition)
        if log is None:
            opened = self.store.open(topic, partition, topic_id, config)
            if isinstance(opened, Completion):
                yield opened
                opened = opened.result()
            log = self._add(topic, partition, topic_id, config, opened)
        return log

    patch.setattr(LogManager, "open", hasty)


def append_to_a_log_that_was_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "resign", lambda self: None)


def advance_a_round_of_which_one_log_was_refused(patch: pytest.MonkeyPatch) -> None:
    """Its high watermark first, and the loss later."""

    def first(self: Rounds, ends: RoundEnds, on_ended: Any, committed: Completion[Verdicts]) -> None:
        rounds._advance(ends)
        _judge(self, ends, on_ended, committed)

    _judge = Rounds._on_committed
    patch.setattr(Rounds, "_on_committed", first)


PLANTS: list[Plant] = [
    take_no_notice_of_a_refusal,
    acknowledge_before_the_statement,
    believe_that_rounds_are_whole,
    lead_again_in_the_same_epoch,
    open_a_partition_twice,
    append_to_a_log_that_was_lost,
    advance_a_round_of_which_one_log_was_refused,
]
