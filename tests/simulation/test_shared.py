"""The whole broker over a store elsewhere: partitions that come and go lose nothing; and the auditor bites."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
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
from tests.history.auditor import HistoryError, require_at_least
from tests.simulation.log_auditor import AuditError
from tests.simulation.shared_world import SharedWorld

Plant = Callable[[pytest.MonkeyPatch], None]


# `.ci/run` simulates the seeds behind them.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(2, 24, 2))])
def test_what_clients_were_told_holds_while_partitions_come_and_go(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 2):
        counts.update(asdict(SharedWorld(seed).run()))
    require_at_least(counts, commits=30, aborts=8, reads=500, stops=5, group_commits=5)
    require_at_least(counts, refused_commits=20, lost_partitions=60, gained_partitions=60, handovers=5)


def _take_no_notice_of_a_refusal(patch: pytest.MonkeyPatch) -> None:
    def advanced(self: Rounds, ends: RoundEnds, on_ended: Any, committed: Completion[Verdicts]) -> None:
        _judge(self, ends, on_ended, Completion.of(ALL_DURABLE))

    _judge = Rounds._on_committed
    patch.setattr(Rounds, "_on_committed", advanced)


def _acknowledge_before_the_statement(patch: pytest.MonkeyPatch) -> None:
    commit = SharedStore.commit

    def hasty(self: SharedStore, ends: RoundEnds, append_count: int) -> None:
        commit(self, ends, append_count)

    patch.setattr(SharedStore, "commit", hasty)


def _believe_that_rounds_are_whole(patch: pytest.MonkeyPatch) -> None:
    """A marker may be refused while its decision is durable."""
    patch.setattr(SharedStore, "rounds_are_whole", True)


def _lead_again_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetadataLog, "change_leader", lambda *_: Completion.of(None))


def _open_a_partition_twice(patch: pytest.MonkeyPatch) -> None:
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


def _append_to_a_log_that_was_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "resign", lambda self: None)


def _advance_a_round_of_which_one_log_was_refused(patch: pytest.MonkeyPatch) -> None:
    """Its high watermark first, and the loss later."""

    def first(self: Rounds, ends: RoundEnds, on_ended: Any, committed: Completion[Verdicts]) -> None:
        rounds._advance(ends)
        _judge(self, ends, on_ended, committed)

    _judge = Rounds._on_committed
    patch.setattr(Rounds, "_on_committed", first)


PLANTS: list[Plant] = [
    _take_no_notice_of_a_refusal,
    _acknowledge_before_the_statement,
    _believe_that_rounds_are_whole,
    _lead_again_in_the_same_epoch,
    _open_a_partition_twice,
    _append_to_a_log_that_was_lost,
    _advance_a_round_of_which_one_log_was_refused,
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_sixty_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AuditError, HistoryError)):
        for seed in range(60):
            SharedWorld(seed).run()
