"""Streams groups in the whole broker: every task has one member, whatever stops."""

from collections import Counter

from tests.history.auditor import require_at_least
from tests.simulation.streams_world import StreamsWorld


def test_every_task_has_one_member_and_offsets_are_those_of_its_last_commit() -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts.update(StreamsWorld(seed).run())
    require_at_least(counts, stops=15, power_cuts=5, assignments=80, fenced=4, unanswered=1, made_topics=25, healed=1)
    require_at_least(counts, plain_commits=30, transactional_commits=40, commits=25, aborts=10, looks=200, replays=8)
    require_at_least(counts, refused_plain_commits=2, refused_transactional_commits=1, deletions=2)
    require_at_least(counts, refused_topologies=4, stale_topologies=5)
