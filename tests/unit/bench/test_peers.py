"""`make bench` reports what was measured: its order, its statistics, its tables and its complaints. No broker runs."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.harness import picture
from bench.harness.command import available
from bench.harness.figures import number, spread
from bench.harness.rounds import rotated
from bench.hot_paths import cpu_us
from bench.page import PAGE, aligned, write_block
from bench.peers import broker
from bench.peers.__main__ import parsed
from bench.peers.contestants import CONTESTANTS, KAFKA, Contestant, Launch
from bench.peers.report import Report
from bench.peers.run import ALONE, Plan, Results, Sample, run, sample_of
from bench.peers.workloads import WORKLOADS, Clock, Incomplete, Scene, Workload, filled_count
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tools.interop import Unavailable

RATE = Workload("rate", "some writes", "record", 100, lambda scene: None, ("MB/s", 1e-3))
TIMES = Workload("times", "some waits", "record", 100, lambda scene: None)


def contestant(key: str, code: str = "") -> Contestant:
    """A process that runs `code` and answers no client."""
    launch = Launch([sys.executable, "-c", code], free_ports(1)[0])
    return Contestant(key, key.capitalize(), lambda: "1.0", lambda directory: launch)


OURS, KAFKAS = contestant("ours"), contestant(KAFKA)


def report(values: dict[str, dict[str, Sequence[float]]], results: Results | None = None) -> Report:
    results = results or Results()
    for workload, by_contestant in values.items():
        for key, each in by_contestant.items():
            samples = [Sample(value, 10 * value, wall_s=2.0, broker_cpu_s=1.5, client_cpu_s=0.5) for value in each]
            results.samples.setdefault(workload, {})[key] = samples
    return Report([RATE, TIMES], [OURS, KAFKAS], {"ours": "1.0", KAFKA: "4.3"}, {}, results, 1, ["a machine"])


def cells(table: str, title: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_a_spread_is_the_median_with_the_lowest_and_the_highest() -> None:
    assert str(spread([3.0, 100.0, 1.0])) == "3.00 (1.00–100)"
    assert str(spread([5.0])) == "5.00"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.000123, "0.00012"), (0.01234, "0.0123"), (12.34, "12.3"), (143.4, "143"), (12_345.6, "12,346")],
)
def test_a_number_has_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_twice_the_rate_and_half_the_time_are_both_twice_as_fast() -> None:
    rate, median, slowest = report({"rate": {"ours": [20], KAFKA: [10]}, "times": {"ours": [1], KAFKA: [2]}}).figures()
    assert [each.speed("ours") for each in (rate, median, slowest)] == [2.0, 2.0, 2.0]


def test_speeds_compare_medians_of_the_rounds() -> None:
    rate, *_ = report({"rate": {"ours": [1, 30, 99], KAFKA: [10, 9, 11]}}).figures()
    assert rate.speed("ours") == 3.0


def test_there_is_no_speed_without_apache_kafka() -> None:
    lonely = report({"rate": {"ours": [20]}})
    assert next(lonely.figures()).speed("ours") is None
    assert cells(lonely.speed_table(), "some writes") == ["20.0", "failed", "–"]


def test_each_contestant_begins_as_often_as_the_others() -> None:
    assert [rotated("abc", by) for by in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]


def test_a_rate_counts_all_operations_and_times_have_percentiles() -> None:
    assert sample_of(RATE, 5_000, Clock(wall_s=2.0)).value == pytest.approx(2.5)
    sample = sample_of(TIMES, 101, Clock(durations=[number / 1000 for number in range(101)]))
    assert (sample.value, sample.p99_ms) == (pytest.approx(50), pytest.approx(99))


def test_a_clock_adds_up_only_what_passes_inside() -> None:
    spent = iter([1.0, 4.0, 10.0, 12.0])
    clock = Clock(broker_cpu=lambda: next(spent))
    for _ in range(2):
        with clock:
            pass
    assert clock.broker_s == 5.0


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_a_smaller_run_has_whole_steps_and_at_least_one(workload: Workload) -> None:
    assert workload.scaled(1) == workload.count
    assert workload.scaled(10**9) == workload.step
    assert workload.scaled(7) % workload.step == 0


def test_as_many_records_are_there_as_any_workload_reads() -> None:
    by_key = {workload.key: workload for workload in WORKLOADS}
    assert filled_count([by_key["produce-1k"]], 1) == 0
    assert filled_count([by_key["copy"]], 1) == by_key["copy"].count
    assert filled_count(WORKLOADS, 1) == by_key["committed"].count // by_key["committed"].passes


def test_a_sync_that_another_thread_interrupts_in_the_trace_counts_once() -> None:
    trace = b"7  fdatasync(9) = 0\n7  fsync(3 <unfinished ...>\n8  fdatasync(4) = 0\n7  <... fsync resumed>) = 0\n"
    assert len(broker._SYNC.findall(trace)) == 3


def test_all_workloads_are_added_up_only_for_those_that_ran_all() -> None:
    table = report({"rate": {"ours": [1], KAFKA: [1]}, "times": {KAFKA: [1]}}).cpu_table()
    assert cells(table, "all of them") == ["–", "3.00", ""]
    assert cells(table, "some writes") == ["1.50", "1.50", "25%"]


def test_times_without_sockets_have_a_column_for_each_way_to_run() -> None:
    rows = {"interpreted": {"Produce": 30.0}, "compiled": {"Produce": 10.0}}
    assert cells(replace(report({}), in_process=rows).text(), "Produce") == ["30.0", "10.0"]
    assert all(0 < each < 100_000 for each in cpu_us(repeat=1).values())


def test_what_failed_and_what_is_left_out_is_said_in_the_report() -> None:
    results = Results(failures={"ours": {"times": "the topic is gone"}})
    text = report({"rate": {"ours": [20], KAFKA: [10]}, "times": {KAFKA: [2]}}, results).text()
    assert "- Ours failed in “some waits”: the topic is gone" in text
    assert cells(text, "some waits, p50")[0] == "failed"
    assert cells(text, "some writes, MB/s") == ["20.0, 2.00 ×", "10.0", "–"]


def test_a_contestant_that_cannot_be_prepared_is_left_out_with_its_reason() -> None:
    def fail() -> str:
        raise Unavailable("go not found here")

    missing = Contestant("kfake", "kfake", fail, lambda directory: Launch([], 0))
    assert available([OURS, missing]) == ({"ours": "1.0"}, {"kfake": "go not found here"})


def test_a_broker_that_ends_costs_neither_the_others_nor_the_run(tmp_path: Path) -> None:
    plan = Plan([RATE], [contestant("ours", "raise SystemExit('no licence')")], 1, 1, 1.0, tmp_path / "data", list)
    steps: list[tuple[int, int]] = []
    results = run(plan, lambda what, done, total: steps.append((done, total)))
    assert results.failures["ours"] == {"start": "the broker ended with code 1: no licence"}
    assert steps == [(done, plan.steps) for done in range(plan.steps)]


class InstantBroker:
    """A contestant that runs, as far as a run can see; its address is its key."""

    start_ms = 5.0

    def __init__(self, contestant: Contestant, directory: Path, *, counts_syncs: bool = False) -> None:
        self.contestant, self.bootstrap, self._is_counted = contestant, contestant.key, counts_syncs
        self._syncs = 0

    def check(self) -> None: ...

    def stop(self) -> None: ...

    def cpu_s(self) -> float:
        return 0.0

    def resident_mb(self) -> float:
        return 40.0

    def sync_count(self) -> int:
        self._syncs += self._is_counted
        return self._syncs


def instant_plan(monkeypatch: pytest.MonkeyPatch, place: Path, run: Callable[[Scene], None]) -> Plan:
    monkeypatch.setattr("bench.peers.run.Broker", InstantBroker)
    monkeypatch.setattr("bench.peers.run.client.prepare", lambda scene: None)
    monkeypatch.setattr("bench.peers.run.shutil.which", lambda name: name)

    def clocked(scene: Scene) -> None:
        with scene.clock:
            run(scene)

    workload = replace(RATE, run=clocked)
    return Plan([workload], [OURS, KAFKAS], 2, 1_000, 1.0, place / "data", list)


def test_rounds_rotate_and_the_warm_up_is_not_among_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    plan = instant_plan(monkeypatch, tmp_path, lambda scene: order.append(scene.bootstrap))
    results = run(plan, lambda what, done, total: None)
    warm_up, rounds, syncs = order[:2], order[2:6], order[6:]
    assert warm_up == ["ours", KAFKA]
    assert rounds == [KAFKA, "ours", "ours", KAFKA]
    assert syncs == ["ours", KAFKA]
    assert {key: len(each) for key, each in results.samples["rate"].items()} == {"ours": 2, KAFKA: 2}
    assert results.start_ms == {"ours": [5.0, 5.0], KAFKA: [5.0, 5.0]}
    assert results.syncs == {"rate": {"ours": 0.5, KAFKA: 0.5}}


def test_the_client_alone_is_measured_in_each_round_where_a_mock_suffices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    plan = instant_plan(monkeypatch, tmp_path, lambda scene: order.append("mock" if scene.is_mock else scene.bootstrap))
    plan = replace(plan, workloads=[replace(plan.workloads[0], runs_on_mock=True)])
    steps: list[tuple[int, int]] = []
    results = run(plan, lambda what, done, total: steps.append((done, total)))
    assert order[:9] == ["ours", KAFKA, "mock", KAFKA, "ours", "mock", "ours", KAFKA, "mock"]
    assert len(results.samples["rate"][ALONE]) == 2
    assert steps == [(done, plan.steps) for done in range(plan.steps)]
    table = report({"rate": {"ours": [30], KAFKA: [10], ALONE: [40]}}).speed_table()
    assert cells(table, "some writes") == ["30.0, 3.00 ×", "10.0", "40.0, 4.00 ×"]


@pytest.mark.parametrize("workload", [each for each in WORKLOADS if each.runs_on_mock], ids=lambda each: each.key)
def test_librdkafkas_mock_can_do_what_is_measured_on_it(workload: Workload) -> None:
    scene = Scene("", workload.scaled(100), time.monotonic() + PATIENCE_S, is_mock=True)
    workload.run(scene)
    assert scene.clock.wall_s > 0


def test_a_workload_that_fails_is_tried_once_and_only_where_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def lose(scene: Scene) -> None:
        order.append(scene.bootstrap)
        if scene.bootstrap == KAFKA:
            raise Incomplete("3 records were refused")

    results = run(instant_plan(monkeypatch, tmp_path, lose), lambda what, done, total: None)
    assert (order.count("ours"), order.count(KAFKA)) == (4, 1)
    assert results.failures[KAFKA] == {"rate": "3 records were refused"}
    assert results.samples["rate"].keys() == {"ours"}


def test_the_block_of_one_command_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A\n<!-- begin: make a -->\nold\n<!-- end -->\nB\n<!-- begin: make b -->\n<!-- end -->\nC\n")
    write_block("make b", "new\n", page)
    write_block("make b", "newer\n", page)
    ours = "<!-- begin: make b -->\n\nnewer\n\n<!-- end -->\nC\n"
    assert page.read_text() == f"A\n<!-- begin: make a -->\nold\n<!-- end -->\nB\n{ours}"
    with pytest.raises(ValueError, match="no block of make c"):
        write_block("make c", "new\n", page)


@pytest.mark.parametrize("command", ["make bench", "make bench ARGS=--tls", "make bench WHAT=log"])
def test_the_page_has_a_block_for_each_command(command: str, tmp_path: Path) -> None:
    copy, text = tmp_path / "page.md", PAGE.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    write_block(command, "new", copy)
    before, _, after = copy.read_text(encoding="utf-8").partition(f"<!-- begin: {command} -->\n\nnew\n<!-- end -->\n")
    assert text.startswith(before) and text.endswith(after)


def test_a_table_aligns_names_left_and_numbers_right() -> None:
    assert aligned([["what", "n"], ["a", "10"]]) == "| what |  n |\n| ---- | -: |\n| a    | 10 |"


def test_in_the_picture_the_faster_is_further_right() -> None:
    rows = [picture.Row("writes", {"slow": 0.5, "fast": 4.0})]
    drawn = picture.draw("Speed", "relative", rows)
    dots = [float(line.split("'")[1]) for line in drawn.splitlines() if line.startswith("<circle")]
    assert dots[-2] < dots[-1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "produce-wait,sleeping"], "no workload is called sleeping; there are produce-1k, "),
        (["--contestants", "redis"], "no contestant is called redis; there are oncelog-fsync, "),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--json", "nowhere/results.json"], "--json: there is no directory nowhere"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_there_is(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed(arguments)
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "is_whole"),
    [
        ([], True),
        (["--rounds", "5"], True),
        (["--rounds", "2"], False),
        (["--quick"], False),
        (["--only", "copy"], False),
    ],
)
def test_only_a_whole_run_writes_the_page(arguments: list[str], is_whole: bool) -> None:
    assert parsed(arguments).is_whole is is_whole


def test_contestants_are_chosen_by_their_keys_in_the_order_of_the_table() -> None:
    assert [each.key for each in parsed(["--contestants", "kfake,kafka"]).contestants] == [KAFKA, "kfake"]
    assert parsed([]).contestants == list(CONTESTANTS)
