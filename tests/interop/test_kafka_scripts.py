"""The recorded transcript of Kafka's console tools, which the scripts of the image are held to, is still what they
print."""

import pytest

from tests.support.foreign.interop import class_path
from tests.support.kafka.scripts import GOLDEN, run_java, written
from tests.support.processes.daemon import Daemon


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.recording
def test_the_recorded_transcript_is_what_kafkas_own_tools_print(daemon: Daemon) -> None:
    class_path()  # skips where there is no Java
    assert written(lambda call: run_java(call, daemon.bootstrap), daemon.bootstrap) == GOLDEN.read_text()
