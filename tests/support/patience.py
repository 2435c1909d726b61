"""How long a test waits, at most, for what must come: long enough that only what hangs is ended.

On a machine that is ten times as busy as it has cores, half a minute passes where a test alone takes a second. Nobody
waits for these where all is well. tests/test_tidy.py has no shorter deadline in the tests.
"""

PATIENCE_S = 300
"""Less than the `timeout` of a whole test in pyproject.toml, so that the wait that hangs is the one that is named."""

PATIENCE_MS = PATIENCE_S * 1_000

SHORT_OF_DEFAULTS_S = 50
"""Where a test sets a client a deadline of a second or less, and a client that ignored it would return all the same,
by its defaults: of these, the shortest after which a call gives up is a minute."""

SLOW_TIMEOUT_S = 1_800
"""For a whole test that is exhaustive, as `timeout` in pyproject.toml is for the others."""
