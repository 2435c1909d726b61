"""`make bench WHAT=clients` reports what was measured: ratios, order, and the steps of a record; no broker runs."""

import pytest

from bench.clients.__main__ import WORKLOADS, parsed
from bench.clients.parts import CONSUMING, PRODUCING, SIZES, Parts, cpu_us
from bench.clients.report import Report
from bench.clients.workers import AIOKAFKA, CLIENTS, COMPILED, INTERPRETED

OURS, PEERS = CLIENTS[0], next(each for each in CLIENTS if each.key == AIOKAFKA)


def report(ours_s: list[float], peers_s: list[float]) -> Report:
    """Each took this long in each round, with half of it as processor time; operations that wait took 1 ms."""

    def samples(times_s: list[float]) -> list[dict[str, object]]:
        return [{"wall_s": each, "cpu_s": each / 2, "durations_s": [each / 1_000]} for each in times_s]

    found = {each.key: {OURS.key: samples(ours_s), PEERS.key: samples(peers_s)} for each in WORKLOADS}
    parts = {OURS.key: {str(size): dict.fromkeys((*PRODUCING, *CONSUMING), 0.1) for size in SIZES}}
    return Report(WORKLOADS, (OURS, PEERS), found, 1, parts, ["a machine"])


def rows(text: str, title: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if title in line]


def test_half_the_time_of_the_median_is_twice_as_fast() -> None:
    text = report([1.0, 9.0, 0.5], [2.0, 2.0, 100.0]).text()
    assert rows(text, "| produce 100 B ")[0][1:] == ["2.50 (1.25–22.5), 2.00 ×", "5.00 (5.00–250)"]
    assert rows(text, "| produce 100 B, k records/s")[0][1:] == ["200 (22.2–400), 2.00 ×", "100 (2.00–100)"]
    assert rows(text, "p50, ms")[0][1:] == ["1.00 (0.500–9.00), 2.00 ×", "2.00 (2.00–100)"]


def test_what_is_left_of_the_whole_is_shown_beside_the_steps() -> None:
    (rest,) = rows(report([1.0], [1.0]).text(), "produce 100 B: event loop")
    assert rest[1:] == ["2.30"]  # of 2.5 µs, two steps of 0.1


def test_without_aiokafka_there_is_no_ratio() -> None:
    found = {key: {OURS.key: each[OURS.key]} for key, each in report([1.0], [1.0]).samples.items()}
    alone = Report(WORKLOADS, (OURS,), found, 1, {}, [])
    assert "2.50" in alone.text() and "×" not in alone.text()
    assert alone.picture().startswith("<svg")


def test_only_a_whole_run_may_write_the_page() -> None:
    assert parsed([]).is_whole and parsed(["--rounds", "9"]).is_whole
    assert not any(parsed(each).is_whole for each in (["--quick"], ["--rounds", "2"], ["--clients", INTERPRETED]))
    with pytest.raises(SystemExit):
        parsed(["--clients", "nobody"])


def test_each_step_of_a_record_is_measured_for_each_size() -> None:
    assert [each.key for each in CLIENTS][:2] == [INTERPRETED, COMPILED]
    found = cpu_us(times=3)
    assert found.keys() == set(map(str, SIZES))
    for size in SIZES:
        assert Parts(size).record_count > 16_000 // (size + 20)
        assert all(0 < value < 1_000 for value in found[str(size)].values())
