"""What every command has in common: which cluster it asks, how it fails, what it loads, how its options are named."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.client.values.records import Record, TopicPartition
from oncelog.tools.positions import Position, duration_ms, position
from oncelog.tools.profiles import ProfileError, target
from oncelog.tools.record.formats import ReadRecord, as_row, parsed, unescaped
from tests.support.pages.command_tree import ARGUMENTS, ASKING, command_at, commands
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"ONCELOG_CONFIG": os.devnull, **environment})


@pytest.fixture
def nothing_listens() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


# --- without a broker -------------------------------------------------------------------------------------------------


def test_every_command_about_a_cluster_is_known_here() -> None:
    assert len(ASKING) > 25
    assert set(ARGUMENTS) <= set(ASKING)


@pytest.mark.parametrize("name", ASKING)
def test_without_a_broker_a_command_says_so_before_it_opens_a_client(
    name: str, nothing_listens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client would try again until its time is over."""
    monkeypatch.setattr("oncelog.client.wire.cluster.Cluster.__init__", None)
    result = run(*name.split(), *ARGUMENTS.get(name, ()), "--bootstrap", nothing_listens)
    assert result.exit_code == (1 if name in ("doctor", "health") else 2)
    said = result.stdout if name == "doctor" else result.stderr
    assert f"{nothing_listens} does not respond: Connection refused" in said
    assert name == "doctor" or ("`oncelog serve`" in said and len(said.splitlines()) == 1)


def test_the_help_of_health_says_how_long_it_waits() -> None:
    assert "[default: 3]" in run("health", "--help").stdout
    assert "[default: 10]" in run("doctor", "--help").stdout


def test_a_command_that_fails_to_connect_has_loaded_neither_loop_nor_client(nothing_listens: str) -> None:
    program = (
        "import sys\nfrom oncelog.cli import main\n"
        f"try: main(['topic', 'list', '-b', '{nothing_listens}'])\nexcept SystemExit: pass\n"
        "print(*sorted({'asyncio', 'oncelog.client', 'oncelog.broker', 'rich', 'construct'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.stdout == "\n", answer


# Of ours: each takes some 0.4 ms of processor time before the command begins.
MOST_MODULES = {
    "topic create loaded": 49,
    "topic list": 49,
    "txn list": 57,
    "record produce loaded x": 97,
    "record consume loaded --exit": 100,
}
NEVER = (
    "oncelog.broker",
    "oncelog.client.public",
    "oncelog.client.session",
    "oncelog.client.blocking",
    "oncelog.pipeline",
    "oncelog.protocol.schema",
    "backports.zstd",
    "construct",
    "cramjam",
    "importlib.metadata",
    "lz4",
    "pathlib",
    "re2",
    "rich",
    "structlog",
    "uvloop",
)
ADMIN_ONLY = ("oncelog.client.consuming", "oncelog.client.groups", "oncelog.client.options", "oncelog.client.producing")


@pytest.mark.parametrize("command", MOST_MODULES)
def test_a_command_that_asks_loads_little_and_nothing_heavy(command: str, daemon: Daemon) -> None:
    """Modules are counted, since a clock would measure the machine."""
    if command.startswith("record"):
        run("topic", "create", "loaded", "-b", daemon.bootstrap)
    arguments = [*command.split(), "-b", daemon.bootstrap]
    program = (
        "import sys\nfrom oncelog.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert not end.code\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-S", "-c", f"import sys\nsys.path = {sys.path!r}\n{program}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    loaded = answer.stderr.split()
    assert "oncelog.client.admin.client" in loaded, answer
    forbidden = NEVER if command.startswith("record") else (*NEVER, *ADMIN_ONLY)
    assert [
        name for name in loaded if name in forbidden or name.startswith(tuple(f"{each}." for each in forbidden))
    ] == []
    # The library that has the compiled modules is none of them.
    ours = [name for name in loaded if name.startswith("oncelog") and not name.endswith("__mypyc")]
    assert len(ours) <= MOST_MODULES[command], len(ours)


def test_help_imports_no_command() -> None:
    program = (
        "import sys\nfrom oncelog.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('oncelog.tools', 'oncelog.broker'))))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.stdout.splitlines()[-1] == "", answer
    assert re.search(r"^  topic +Create, list", answer.stdout, re.MULTILINE)


# --- which cluster ----------------------------------------------------------------------------------------------------

PROFILES = """
profile = "local"
[profiles.local]
bootstrap = "local:1"
[profiles.staging]
bootstrap = "a:1, b:2"
timeout = 30
[profiles.broken]
bootstrap = 7
"""


def chosen(tmp_path: Path, bootstrap: str | None = None, profile: str | None = None, **environment: str) -> str:
    (tmp_path / "config.toml").write_text(PROFILES)
    found = target(bootstrap, profile, None, {"ONCELOG_CONFIG": str(tmp_path / "config.toml"), **environment})
    return found.bootstrap


def test_what_is_typed_wins_then_the_environment_then_the_file(tmp_path: Path) -> None:
    both = {"ONCELOG_BOOTSTRAP": "env:1", "ONCELOG_PROFILE": "staging"}
    assert chosen(tmp_path, "typed:1", "staging", **both) == "typed:1"
    assert chosen(tmp_path, None, "local", **both) == "local:1"
    assert chosen(tmp_path, **both) == "env:1"
    assert chosen(tmp_path, ONCELOG_PROFILE="staging") == "a:1, b:2"
    assert chosen(tmp_path) == "local:1"
    assert target(None, None, None, {"XDG_CONFIG_HOME": str(tmp_path)}).bootstrap == "127.0.0.1:9092"
    (tmp_path / "oncelog").mkdir()
    (tmp_path / "oncelog" / "config.toml").write_text('profile = "x"\nprofiles.x.bootstrap = "home:1"')
    assert target(None, None, None, {"XDG_CONFIG_HOME": str(tmp_path)}).bootstrap == "home:1"


SECURED = """
profile = "staging"
[profiles.local]
bootstrap = "localhost:9092"
[profiles.staging]
bootstrap = "kafka-1:9093"
security_protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
sasl_username = "alice"
[profiles.copied]
bootstrap = "kafka-1:9093"
command_config = "FILE"
"""
ENVIRONMENT = {"ONCELOG_SASL_PASSWORD": "secret", "SSL_CERT_FILE": "/etc/other.pem"}


def test_security_comes_from_where_the_address_does_and_no_password_reaches_another_cluster(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.jaas.config=x \\\n  required;\nclient.id=me\nssl.truststore.type=PEM\n"
    )
    copied = {"security_protocol": "SASL_SSL", "sasl_jaas_config": "x required;"}
    staging = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    (tmp_path / "config.toml").write_text(SECURED.replace("FILE", str(properties)))
    config = {"ONCELOG_CONFIG": str(tmp_path / "config.toml")}
    variables = {**ENVIRONMENT, "ONCELOG_COMMAND_CONFIG": str(properties)}
    for named, environment, wanted in (
        ((None, None), config, staging),
        ((None, None), {**config, **ENVIRONMENT}, {**staging, "sasl_password": "secret"}),
        ((None, "staging"), {**config, **variables}, {**staging, "sasl_password": "secret"}),
        ((None, "local"), {**config, **variables}, {}),
        ((None, "copied"), {**config, **ENVIRONMENT}, copied),
        (("host:1", None), {**config, **ENVIRONMENT}, {"sasl_password": "secret"}),
        (("host:1", None), {**config, **variables}, copied),
    ):
        assert target(*named, None, environment).security == wanted
        typed = target(*named, None, environment, str(properties))
        assert typed.security == copied
        assert "required" not in repr(typed)


def test_a_token_for_a_command_is_a_provider_for_its_clients() -> None:
    security = target("host:1", None, None, {"ONCELOG_SASL_OAUTH_TOKEN": "abc"}).security
    assert security["sasl_oauth_token_provider"]() == "abc"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"a=\\u12\n", "line 1: "), (b"\xff\xfe", "codec can't decode")],
    ids=["missing", "no properties", "no text"],
)
def test_a_file_of_settings_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    properties = tmp_path / "client.properties"
    if content is not None:
        properties.write_bytes(content)
    with pytest.raises(ProfileError, match=rf"client.properties: .*{said}"):
        target("host:1", None, None, {}, str(properties))


def test_a_profile_has_addresses_and_a_timeout(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(PROFILES)
    environment = {"ONCELOG_CONFIG": str(tmp_path / "config.toml")}
    found = target(None, "staging", None, environment)
    assert (found.addresses, found.timeout_s) == ((("a", 1), ("b", 2)), 30)
    assert target(None, "staging", 5, environment).timeout_s == 5


@pytest.mark.parametrize(
    "arguments, environment, wanted",
    [
        (("--bootstrap", "nowhere"), {}, "--bootstrap: 'nowhere' is not of the form HOST:PORT"),
        ((), {"ONCELOG_BOOTSTRAP": "a:b"}, "ONCELOG_BOOTSTRAP: 'a:b' is not of the form HOST:PORT"),
        (("--bootstrap", "a:99999"), {}, "--bootstrap: 'a:99999' has no port from 1 to 65535"),
        (("--profile", "other"), {}, "--profile: there is no profile 'other'"),
        ((), {"ONCELOG_PROFILE": "other"}, "ONCELOG_PROFILE: there is no profile 'other'"),
        (("--profile", "broken"), {}, "profile 'broken' needs bootstrap"),
    ],
)
def test_a_wrong_address_is_named_as_it_was_given(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], wanted: str
) -> None:
    (tmp_path / "config.toml").write_text(PROFILES)
    result = run("topic", "list", *arguments, **{"ONCELOG_CONFIG": str(tmp_path / "config.toml"), **environment})
    assert result.exit_code == 2 and wanted in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"ONCELOG_CONFIG: .*gone: No such file"):
        target(None, None, None, {"ONCELOG_CONFIG": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("timout = 30", "has no setting 'timout' (did you mean 'timeout'?)"),
        ("security_protocl = 'SSL'", "has no setting 'security_protocl' (did you mean 'security_protocol'"),
        ("max_request_size = 1", "has no setting 'max_request_size': it is a setting of a producer"),
        ("security_protocol = 'SSL'\nssl_context = 'x'", "has no setting 'ssl_context'"),
        ("command_config = 'gone.properties'", "command_config of profile 'b' in "),
    ],
)
def test_a_setting_that_a_profile_cannot_have_is_named(tmp_path: Path, line: str, wanted: str) -> None:
    (tmp_path / "config.toml").write_text(f"[profiles.b]\nbootstrap = 'b:1'\n{line}\n")
    result = run("topic", "list", "--profile", "b", ONCELOG_CONFIG=str(tmp_path / "config.toml"))
    assert result.exit_code == 2 and wanted in result.stderr and "profile 'b' in " in result.stderr


@pytest.mark.parametrize(
    "content, wanted",
    [
        (None, "--command-config: FILE: No such file or directory"),
        ("security.protocl=SSL", "--command-config: FILE has no setting 'security.protocl' (did you mean "),
        ("security.protocol=SASLSSL", "FILE: security.protocol='SASLSSL': must be one of"),
        ("security.protocol=SASL_SSL", "FILE: security.protocol='SASL_SSL' needs sasl.mechanism"),
    ],
)
def test_what_is_wrong_with_a_properties_file_is_said_in_its_names(
    tmp_path: Path, content: str | None, wanted: str
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_text(content)
    result = run("topic", "list", "--bootstrap", "127.0.0.1:1", "--command-config", str(file))
    assert (result.exit_code, result.stderr.startswith("oncelog: " + wanted.replace("FILE", str(file)))) == (2, True)


def test_what_is_wrong_with_a_variable_is_said_in_its_name() -> None:
    wrong = run("topic", "list", "--bootstrap", "127.0.0.1:1", ONCELOG_SECURITY_PROTOCOL="TLS")
    assert wrong.stderr.startswith("oncelog: ONCELOG_SECURITY_PROTOCOL='TLS': must be one of")
    unknown = run("topic", "list", "--bootstrap", "127.0.0.1:1", ONCELOG_SASL_PASWORD="secret")
    assert (
        "the environment has no setting 'ONCELOG_SASL_PASWORD' (did you mean 'ONCELOG_SASL_PASSWORD'" in unknown.stderr
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("profile = ")
    with pytest.raises(ProfileError, match=r"config\.toml cannot be read"):
        target(None, None, None, {"ONCELOG_CONFIG": str(tmp_path / "config.toml")})


def test_every_command_that_takes_an_address_takes_it_as_kafkas_scripts_do() -> None:
    """Each such command has --bootstrap-server beside --bootstrap."""
    taking = [name for name in commands() if "bootstrap" in [parameter.name for parameter in command_at(name).params]]
    assert set(ASKING) < set(taking)
    for name in taking:
        (option,) = [each for each in command_at(name).params if each.name == "bootstrap"]
        assert option.opts == ["-b", "--bootstrap", "--bootstrap-server"], name


def groups(group: click.Group = main) -> Iterator[click.Group]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield command


def test_the_summary_of_each_verb_is_one_whole_line_at_80_columns() -> None:
    """click cuts a longer one."""
    seen = 0
    for group in groups():
        shown = CliRunner().invoke(main, [group.name or "", "--help"], terminal_width=80).stdout
        verbs = shown.partition("Commands:\n")[2].splitlines()
        assert len(verbs) == len(group.commands), shown
        assert [line for line in verbs if "..." in line or len(line) > 80] == []
        seen += len(verbs)
    assert seen > 50


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        (("config", "alter", "--topic", "t"), "--set, --reset"),
        (("config", "describe"), "--topic, --group"),
        (("config", "alter", "--topic", "t", "--set", "a"), "'--set': 'a' is not of the form NAME=VALUE"),
        (
            ("config", "alter", "--topic", "t", "--set", "retention.ms=7x"),
            "retention.ms: '7x' is not a duration: write",
        ),
        (("topic", "create", "t", "-c", "segment.bytes=1GB"), "one with KiB, MiB, GiB or TiB behind it, such as 1GiB"),
        (("quota", "set", "--user", "u", "producer_byte_rate=1x"), "producer_byte_rate: '1x' is not a size: write"),
        (("serve", "--override", "log.retention.ms=7x"), "log.retention.ms: '7x' is not a duration: write"),
        (("cluster", "alter", "--feature", "a=b"), "'--feature': 'b' is not a level"),
        (("topic", "create", "t", "-c", "a"), "'-c' / '--config': 'a' is not of the form NAME=VALUE"),
        (("record", "produce", "t", "v", "-H", "a"), "'-H' / '--header': 'a' is not of the form NAME=VALUE"),
        (("record", "consume", "t:a"), "'TOPIC[:0,1]': 't:a' is not TOPIC or TOPIC:0,1,2"),
        (("record", "consume", "t:0", "--group", "g"), "--group assigns the partitions"),
        (("record", "consume", "t", "--group", "g", "-o", "-3"), "`oncelog group reset --to POSITION`"),
        (("record", "consume", "t", "--group", "g", "--show-txn"), "leave out --group"),
        (("group", "reset", "g", "--to", "end", "-t", "t:"), "'-t' / '--topic': 't:' is not TOPIC or"),
        (("txn", "tail", "--transactional-id-pattern", "["), "'--transactional-id-pattern': '['"),
        (("txn", "tail", "--state", "Open"), "'--state': 'Open' is not one of"),
        (("topics", "list"), "No such command 'topics' (did you mean 'topic'?)"),
        (("record", "produce", "t", "v", "--abort"), "--abort needs --transactional-id"),
        (("record", "produce", "t", "--tombstone"), "--tombstone needs --key"),
        (("record", "produce", "t", "-K", ""), "'-K' / '--key-delimiter': it is empty"),
        (("record", "produce", "t", "v", "--transactional-id", "x", "--leave-open", "25d"), "longer than 24 days"),
        (("topic", "list", "--timeout", "nan"), "'--timeout': nan is not a number of seconds above 0"),
        (("topic", "list", "--timeout", "0"), "'--timeout': 0.0 is not a number of seconds above 0"),
        (("record", "consume", "t", "-o", "soon"), "'-o' / '--offset': 'soon' is not a position"),
        (("record", "consume", "t", "-f", "%z"), "'-f' / '--format': %z is unknown"),
        (("record", "consume", "t", "-f", ""), "'-f' / '--format': it is empty"),
        (("record", "consume", "t", "-f", "%s", "--json"), "--json prints all of each record"),
        (("record", "consume", "t", "-g", ""), "'-g' / '--group': it is empty"),
        (("record", "produce", "t", "v", "--transactional-id", ""), "'--transactional-id': it is empty"),
        (("record", "consume", ""), "'TOPIC[:0,1]': "),
        (("group", "delete", ""), "'GROUP...': it is empty"),
        (("txn", "describe", ""), "'TRANSACTIONAL_ID': it is empty"),
        (("topic", "create", ""), "'TOPIC...': it is empty"),
        (("config", "describe", "--group", ""), "'--group': it is empty"),
        (("record", "produce", "t", "v", "--transactional-id", "x", "--leave-open", "1"), "'--leave-open': '1'"),
    ],
)
def test_a_wrong_option_is_named(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], wanted: str) -> None:
    class Nobody:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        async def __aenter__(self) -> "Nobody":
            return self

        async def __aexit__(self, *_: Any) -> None: ...

    monkeypatch.setattr("oncelog.health.check_health", lambda *_: 1)
    monkeypatch.setattr("oncelog.client.admin.client.Admin", Nobody)
    result = run(*arguments)
    assert result.exit_code == 2
    assert wanted in result.stderr, result.stderr


def test_positions_and_durations() -> None:
    now_ms = 1_000_000_000
    for text, wanted in (
        ("start", Position("start")),
        ("end", Position("end")),
        ("42", Position("offset", 42)),
        ("-3", Position("last", 3)),
        ("@123", Position("time", 123)),
        ("@-15m", Position("time", now_ms - 900_000)),
        ("@-99999d", Position("time", 0)),  # a negative time would mean the start or the end
        ("@1960-01-01", Position("time", 0)),
        ("@1970-01-02T00:00:00+00:00", Position("time", 86_400_000)),
    ):
        assert position(text, now_ms) == wanted
    assert [duration_ms(each) for each in ("500ms", "30s", "1.5h", "2d")] == [500, 30_000, 5_400_000, 172_800_000]
    for text in ("", "+1", "@", "@soon", "@-15", "1e3"):
        with pytest.raises(click.BadParameter):
            position(text, now_ms)


def test_a_format_has_kcats_letters() -> None:
    record = Record("topic", 3, 42, 7, None, b"\xff\n", [("a", b"1"), ("b", None)])

    def text(given: str) -> bytes:
        return b"".join(each if isinstance(each, bytes) else each(ReadRecord(record, "A")) for each in parsed(given))

    assert text("%t %p %o %T %k %K %S %R %h %C %%") == b"topic 3 42 7  -1 2 \0\0\0\2 a=1,b= A %"
    assert text(r"%s\t\x00\\\n") == b"\xff\n\t\x00\\\n"
    assert unescaped(r"\t%k\x00\\é") == "\t%k\0\\é".encode()
    assert text("é 100%% \\q") == "é 100% \\q".encode()
    row = as_row(ReadRecord(record, "A"))
    assert (row["key"], row["value_base64"], row["transaction"]) == (None, "/wo=", "A")
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize("shell, cursor", [("bash", "2"), ("zsh", "2"), ("fish", "de")])
def test_a_shell_completes_commands_by_the_script_that_is_printed(shell: str, cursor: str) -> None:
    """Shells name the word before the cursor by its number, fish by itself."""
    script = run("completion", shell).stdout
    assert f"_ONCELOG_COMPLETE={shell}_complete" in script
    completed = CliRunner().invoke(
        main,
        prog_name="oncelog",
        env={"_ONCELOG_COMPLETE": f"{shell}_complete", "COMP_WORDS": "oncelog topic de", "COMP_CWORD": cursor},
    )
    assert "describe" in completed.stdout and "delete" in completed.stdout


WORDS = {
    "topic describe comp": "completed",
    "topic delete completed comp": "completed",
    "record consume comp": "completed",
    "config describe --topic comp": "completed",
    "topic describe __trans": "__transaction_state",
    "txn describe id": "id-of-a-till",
    "group lag re": "readers",
    "record consume completed --group re": "readers",
}


@pytest.mark.parametrize("words", WORDS)
def test_a_shell_completes_the_names_that_the_cluster_has(words: str, daemon: Daemon) -> None:
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap, transactional_id="id-of-a-till") as producer:
        admin.create_topics("completed", "other", exist_ok=True)
        producer.init_transactions()
        admin.alter_group_offsets("readers", {TopicPartition("completed", 0): 0})
        assert completed(words, daemon.bootstrap) == [WORDS[words]]
        option = f"{words.rpartition(' ')[0]} -b {daemon.bootstrap} {words.rpartition(' ')[2]}"
        if "--" not in option:
            assert completed(option, "127.0.0.1:1") == [WORDS[words]]  # as when the command runs, the option decides


def test_a_shell_completes_no_name_without_a_broker(nothing_listens: str) -> None:
    assert completed("topic describe comp", nothing_listens) == []


def completed(words: str, bootstrap: str) -> list[str]:
    environment = {
        "_ONCELOG_COMPLETE": "bash_complete",
        "COMP_WORDS": f"oncelog {words}",
        "COMP_CWORD": str(len(words.split())),
        "ONCELOG_BOOTSTRAP": bootstrap,
        "ONCELOG_CONFIG": os.devnull,
    }
    shown = CliRunner().invoke(main, prog_name="oncelog", env=environment).stdout
    return [line.removeprefix("plain,") for line in shown.splitlines() if line]


# --- JSON -------------------------------------------------------------------------------------------------------------

WITHOUT_JSON = {
    "completion": "a script",
    "console": "runs, and shows pages",
    "serve": "runs, and prints one line for programs",
    "service install": "a file",
}


def test_every_command_prints_json_if_it_is_asked_to() -> None:
    found = []
    for name in commands():
        if not any("--json" in parameter.opts for parameter in command_at(name).params):
            found.append(name)
    assert sorted(found) == sorted(WITHOUT_JSON)
