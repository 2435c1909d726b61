"""Lines of JAAS are read as people copy them, and no message repeats one."""

import pytest

from oncelog.broker.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("line", "passwords"),
    [
        (
            f'{PLAIN} required username="admin" password="x" user_admin="x" user_alice="y";',
            {"admin": "x", "alice": "y"},
        ),
        (f"{PLAIN} required\n  user_a='1'\n  user_b = 'two words'\n;", {"a": "1", "b": "two words"}),
        (f'{PLAIN} required // a comment\n user_a="q\\"uote;=\\\\"; ', {"a": 'q"uote;=\\'}),
        (f"{PLAIN} required user_a=word /* and\n another */ user_b=x-y_z.1;", {"a": "word", "b": "x-y_z.1"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_users_are_the_options_that_begin_so(line: str, passwords: dict[str, str]) -> None:
    module = parse_jaas(line)
    assert (module.name, module.passwords) == (PLAIN, passwords)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "must begin with"),
        (f'{PLAIN} user_a="hidden";', "must begin with"),
        (f'{PLAIN} required user_a="hidden"', "semicolon"),
        (f'{PLAIN} required user_a "hidden";', "of the form"),
        (f'{PLAIN} required user_a="hidden;', "quote"),
        (f'{PLAIN} required user_a="hidden"; {PLAIN} required;', "more than one"),
    ],
)
def test_a_line_that_is_none_is_refused_without_its_secrets(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_jaas(line)
    assert "hidden" not in str(refused.value)
