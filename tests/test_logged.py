"""A log is read while another process writes it: in the middle of a line, and after a kill in the middle of a line."""

from pathlib import Path

from tests.support.processes.logged import drop_half_a_line, events, whole_lines


def test_a_line_counts_once_it_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"event": "one"}\nTraceback\n{"event": "t\u2028wo"}\n{"event": "thr', encoding="utf-8")
    assert whole_lines(log) == ['{"event": "one"}', "Traceback", '{"event": "t\u2028wo"}']
    assert [each["event"] for each in events(log)] == ["one", "t\u2028wo"]
    assert events(log, "one") == [{"event": "one"}]
    with log.open("a") as more:
        more.write('ee"}\n')
    assert events(log, "three") == [{"event": "three"}]


def test_what_a_kill_has_cut_is_no_part_of_the_next_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    drop_half_a_line(log)
    for _ in range(2):
        log.write_text('{"event": "one"}\n{"event": "tw')
        drop_half_a_line(log)
    with log.open("a") as more:
        more.write('{"event": "three"}\n')
    assert [each["event"] for each in events(log)] == ["one", "three"]
