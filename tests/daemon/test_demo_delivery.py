"""`oncelog demo delivery`: each mode keeps its promise under the same faults, and the weaker two show their cost."""

import json

import pytest

from oncelog.tools.demo import delivery


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_each_mode_keeps_its_promise_and_no_more(capsys: pytest.CaptureFixture[str], seed: int) -> None:
    assert delivery.run(seed=seed, as_json=True) == 0
    told = {each["mode"]: each for each in json.loads(capsys.readouterr().out)["modes"]}
    assert told["at_most_once"]["lost"] > 0 == told["at_most_once"]["doubled"]
    assert told["at_least_once"]["doubled"] > 0 == told["at_least_once"]["lost"]
    assert (told["exactly_once"]["lost"], told["exactly_once"]["doubled"]) == (0, 0)
    assert told["exactly_once"]["copies"] == [1] * delivery.COUNT


def test_a_mode_that_breaks_its_promise_fails_the_demonstration() -> None:
    good, lost, doubled = [1, 1], [0, 1], [2, 1]
    kept = {
        mode: [delivery.Verdict(mode, copies).keeps_its_promise for copies in (good, lost, doubled)]
        for mode in delivery.MODES
    }
    assert kept == {
        "at_most_once": [True, True, False],
        "at_least_once": [True, False, True],
        "exactly_once": [True, False, False],
    }
