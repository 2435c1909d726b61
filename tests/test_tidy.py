"""The house rules that a machine can check (docs/contribute/contributing.md has them all, with their reasons).

Each rule is one test, and each failure names file and line. Exceptions stand in the tables below, with a reason.
"""

import ast
import dataclasses
import gc
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGES = ("oncelog",)
# The repository's top has links to them.
LINKED = ("broker", "client", "pipeline", "protocol")
GENERATED = "oncelog/protocol/generated/"
SHARED_BY_TESTS = ("tests/clients/", "tests/support/", "tests/fakes/")
LONG_FILE_LINES = 500
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
MAX_HANDLER_LINES = 40
MAX_LINE_LENGTH = 120

# Cores are given time, randomness, network and scheduling; they import none of it, and they do not log.
CORES = (
    "oncelog/broker/cluster/",
    "oncelog/broker/coordinator/",
    "oncelog/broker/fetching/",
    "oncelog/broker/handlers/",
    "oncelog/broker/log/",
    "oncelog/broker/sharing/",
    "oncelog/broker/storage/",
    "oncelog/protocol/",
)
CORE_FILES = ("oncelog/broker/turns/completion.py", "oncelog/broker/turns/ports.py")
NOT_IN_CORES = {"asyncio", "datetime", "logging", "random", "secrets", "socket", "structlog", "time", "uvloop"}
# Abbreviations that Kafka's people know and a first reader does not.
SHORTHANDS = {"pid", "hw", "leo", "lso", "tp", "tps"}
# Where any error at all may be caught, and why.
CATCHES_EVERYTHING = {
    "oncelog/broker/turns/completion.py": "a completion carries whatever its computation raised to whoever waits",
    "oncelog/broker/requests/dispatch.py": "an unexpected error costs one connection, never the broker",
    "oncelog/broker/turns/slices.py": "work that went on in a later turn fails its completion, as above",
    "oncelog/broker/system/loop.py": "a thread hands its error to the loop",
    "oncelog/client/options/hooks.py": "a hook is of the program: whatever it raises is logged, as Kafka does",
    "oncelog/client/wire/sasl.py": "a provider of tokens is of the program: whatever it raises, nobody is logged in",
    "oncelog/client/options/serializers.py": "a serializer is of the program: whatever it raises is about one record",
    "oncelog/sql_offsets/offsets.py": "no class is common to the errors of databases; a second try raises it",
    "oncelog/testing/lives.py": "a start that fails is raised where it was asked for",
}
# Where everything is imported at once, and why.
STARS = {
    "oncelog/client/__init__.py": "for type checkers alone: the names of public.py, which a third list would repeat",
    "oncelog/__init__.py": "as oncelog/client/__init__.py",
}
# Where something is printed without oncelog/tools/terminal.py, which lets no name steer a terminal, and why.
PRINTS = {
    "oncelog/broker/daemon/app.py": "the ready line: an address of its own",
    "oncelog/broker/daemon/cli.py": "the packages point one way: printable() is called there",
    "oncelog/tools/demo/crash.py": "rich draws it, each text by marked(); its writers report to their own parent",
    "oncelog/tools/demo/isolation.py": "rich draws it, each text by marked()",
    "oncelog/tools/kafka_scripts/arguments.py": "to the byte what Kafka prints, each text by printable()",
    "oncelog/tools/kafka_scripts/console.py": "the bytes of records, as Kafka's script",
    "oncelog/tools/copy/reporting.py": "rich draws its bar; what it says beside it goes through marked()",
    "oncelog/tools/log/progress.py": "rich draws its bar, its title by marked()",
    "oncelog/tools/log/map/cli.py": "rich draws it, each text by printable() or marked()",
    "oncelog/tools/log/map/picture.py": "rich draws it, each text by printable()",
    "oncelog/tools/terminal.py": "it prints",
    "oncelog/pipeline/demo/show.py": "rich draws it, each text by printable() and escape()",
    "oncelog/pipeline/demo/events.py": "JSON for the process that started it",
    "oncelog/pipeline/demo/services.py": "the log of a container: its own numbers, and a name of the data set",
}


# Where a test waits for less than tests/support/patience.py says, and why no load can break it.
SHORT_DEADLINES = {
    "tests/conformance/replay.py": "repeats a question in the broker's virtual time",
    "tests/daemon/test_client_arguments.py": "is refused: a wrong type",
    "tests/daemon/test_command_timeouts.py": "what has to pass; before it a copy needs a twentieth of that",
    "tests/simulation/": "virtual time",
    "tests/unit/client/": "virtual time",
    "tests/unit/observability/test_otlp.py": "less than the five seconds of what is not to be waited for",
}
# Where the file with the standard error of a daemon is named; all of them read it by tests/support/processes/logged.py.
READS_LOGS = ("tests/interop/test_secured_mistakes.py", "tests/support/processes/daemon.py", "tests/test_tidy.py")
# Started by targets of their own, a few at a time: make interop, test-spark, compose-test.
OF_OTHER_TARGETS = (
    "tests/integration/",
    "tests/interop/",
    "tests/proofs/spark/",
    "tests/spark/",
    "tests/suites/",
    "tests/support/foreign/interop.py",
    "tests/support/spark/cluster.py",
)
# What waits, and at which position it takes how long.
_WAITS = {
    "abort_transaction": 0,
    "commit_transaction": 0,
    "committed": 1,
    "consume": 1,
    "exception": 0,
    "flush": 0,
    "init_transactions": 0,
    "join": 0,
    "poll": 0,
    "result": 0,
    "send_offsets_to_transaction": 2,
    "settimeout": 0,
    "timeout": 0,
    "wait": 0,
    "wait_for": 1,
}
_LOOK_S = 1
"""A wait of a second or less is a look, which is taken again, or a proof that nothing comes."""

# Who leads and with which epoch is asked of oncelog/broker/cluster/leadership.py: these are no constants, but for
# "none" (−1).
_LED = re.compile(
    r"((leader|coordinator|controller|broker)_epoch|(leader|controller|node|broker|replica)_id)$", re.IGNORECASE
)

_BARE_MODULE = re.compile(
    r"(broker|client|pipeline|protocol)(\.[a-z_]+)*\.(app|cli|generated|handlers|messages|state_records)\b"
)


@cache
def _sources(*folders: str) -> tuple[Path, ...]:
    return tuple(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file, in the order of `ast.walk`, which costs more than any rule that looks at each node."""
    return tuple(ast.walk(_tree(path)))


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """A million nodes: no garbage collection walks them while they are made, and none of another test's afterwards."""
    gc.disable()
    yield
    _tree.cache_clear()
    _nodes.cache_clear()
    gc.enable()


def _written(*folders: str) -> Iterator[tuple[str, Path]]:
    """Files that people write."""
    for path in _sources(*folders):
        if not _name(path).startswith(GENERATED):
            yield _name(path), path


def _is_core(name: str) -> bool:
    return name.startswith(CORES) or name in CORE_FILES


def _none(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


def test_a_file_is_one_noun() -> None:
    """A file of more than 500 lines is a warning, to look for the second noun; the limit is beyond that, and no
    target.
    """
    counts = {name: path.read_text(encoding="utf-8").count("\n") for name, path in _written(*PACKAGES, "tests")}
    long = {name: count for name, count in sorted(counts.items()) if count > LONG_FILE_LINES}
    if long:
        warnings.warn(f"look for a second noun in {long}", stacklevel=1)
    _none([f"{name}: {count} lines" for name, count in long.items() if count > MAX_FILE_LINES])


def test_a_function_fits_on_a_screen() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        limit = MAX_HANDLER_LINES if name.startswith("oncelog/broker/handlers/") else MAX_FUNCTION_LINES
        for node in _nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > limit:
                    found.append(f"{name}:{node.lineno} {node.name} has {count} lines, at most {limit}")
    _none(found)


def test_a_file_opens_with_what_it_owns() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(_tree(path)):
            found.append(f"{name}: no docstring")
    _none(found)


def test_a_folder_opens_with_its_idea() -> None:
    folders = {path.parent for _, path in _written(*PACKAGES)}
    packages = {folder for folder in folders if (folder / "__init__.py").exists()}
    assert {_name(folder) for folder in folders - packages} == {"oncelog/pipeline/ledger/declarative/transformations"}
    found = [folder for folder in packages if not ast.get_docstring(_tree(folder / "__init__.py"))]
    _none([f"{_name(folder)}/__init__.py: no docstring" for folder in found])


def test_names_are_whole_words() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        for node in _nodes(path):
            if _bound_name(node) in SHORTHANDS:
                found.append(f"{name}:{getattr(node, 'lineno', '?')} {_bound_name(node)}")
    _none(found)


def _bound_name(node: ast.AST) -> str | None:
    """The name that a node gives to something of ours."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return None


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def test_no_package_goes_by_its_bare_name() -> None:
    """`broker` is a link to `oncelog/broker`: by both names a module would be there twice, with two of each class."""
    found = []
    for path in _sources(*PACKAGES, "bench", "tests", "tools"):
        for line, module in _imports(path):
            if module.partition(".")[0] in LINKED:
                found.append(f"{_name(path)}:{line} imports {module}, which is oncelog.{module}")
        for node in _nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _BARE_MODULE.match(node.value):
                found.append(f"{_name(path)}:{node.lineno} names {node.value}")
    _none(found)


def test_cores_are_given_time_randomness_and_network_and_do_not_log() -> None:
    found = []
    for name, path in _written("oncelog/broker", "oncelog/protocol"):
        if _is_core(name):
            for line, module in _imports(path):
                if module.partition(".")[0] in NOT_IN_CORES:
                    found.append(f"{name}:{line} imports {module}")
    _none(found)


def test_a_time_in_the_broker_says_of_which_clock_it_is() -> None:
    """`wall_ms` may jump, `monotonic_ms` may not: a plain "now" would be compared with either."""
    types = {"wall_ms": "WallMs", "monotonic_ms": "MonotonicMs"}
    found = []
    for name, path in _written("oncelog/broker"):
        for node in _nodes(path):
            bound = _bound_name(node)
            if bound is not None and re.search(r"(^|_)now_m?s$", bound):
                found.append(f"{name}:{getattr(node, 'lineno', '?')} {bound}: of which clock?")
            annotation = node.annotation if isinstance(node, ast.arg | ast.AnnAssign) else None
            bare = node.target if isinstance(node, ast.AnnAssign) else node
            wanted = types.get(_bound_name(bare) or "")
            if annotation is not None and wanted is not None and ast.unparse(annotation) != wanted:
                found.append(f"{name}:{node.lineno} {_bound_name(bare)} is a {wanted}")
    _none(found)


def test_no_code_imports_the_tests() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        found += [f"{name}:{line}" for line, module in _imports(path) if module.partition(".")[0] == "tests"]
    _none(found)


def test_what_tests_share_is_no_test_of_one_folder() -> None:
    """Modules that several folders use are in tests/clients, tests/support or tests/fakes, where a reader looks for
    them.
    """
    found = []
    for path in _sources("bench", "tests", "tools"):
        for line, module in _imports(path):
            if module.startswith("tests.unit") and not _name(path).startswith(_unit_folder(module)):
                found.append(f"{_name(path)}:{line} imports {module}")
            if _name(path).startswith(SHARED_BY_TESTS) and module.rpartition(".")[2].startswith("test_"):
                found.append(f"{_name(path)}:{line} imports {module}, which is a test")
    _none(found)


def _unit_folder(module: str) -> str:
    return "/".join(module.split(".")[:3]) + "/"


def test_no_leader_and_no_epoch_of_one_is_a_constant() -> None:
    found = []
    for name, path in _written("oncelog/broker"):
        given = _given(path)
        found += [f"{name}:{line} {of}" for of, value, line in given if _LED.search(of) and value >= 0]
        may_read = name.startswith(
            ("oncelog/broker/config/", "oncelog/broker/assembly/", "oncelog/broker/daemon/cli.py")
        )
        if not may_read and '"node.id"' in path.read_text(encoding="utf-8"):
            found.append(f"{name} reads node.id")
    _none(found)


def _given(path: Path) -> Iterator[tuple[str, int, int]]:
    """Integers that are written down as the value of a name: the name, the value and the line."""
    for node in _nodes(path):
        targets: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.keyword) and node.arg is not None:
            targets.append((node.arg, node.value))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets += [(getattr(target, "id", getattr(target, "attr", "")), node.value) for target in names]
        for name, value in targets:
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield name, value.value, value.lineno


def test_nothing_is_imported_by_a_star() -> None:
    found = []
    for name, path in _written(*PACKAGES, "tests"):
        for node in _nodes(path):
            is_star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
            if is_star and name not in STARS:
                found.append(f"{name}:{node.lineno}")
    _none(found)


def test_a_check_that_matters_is_raised_and_never_asserted() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        found += [f"{name}:{node.lineno}" for node in _nodes(path) if isinstance(node, ast.Assert)]
    _none(found)


def test_any_error_at_all_is_caught_only_where_the_table_says() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        for node in _nodes(path):
            if isinstance(node, ast.ExceptHandler) and _catches_everything(node) and name not in CATCHES_EVERYTHING:
                found.append(f"{name}:{node.lineno}")
    _none(found)


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException") for kind in kinds)


def test_a_text_reaches_a_terminal_only_by_way_of_the_helper() -> None:
    found, printing = [], set()
    for name, path in _written(*PACKAGES):
        for node in _nodes(path):
            if _prints(node):
                printing.add(name)
                if name not in PRINTS:
                    found.append(f"{name}:{getattr(node, 'lineno', '?')} {ast.unparse(node)[:80]}")
    _none(found)
    _none([f"{name} prints nothing" for name in PRINTS if name not in printing])


def test_what_is_drawn_by_rich_takes_no_emoji_codes_of_names() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        for node in _nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Console":
                settings = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                if settings.get("emoji") != "False":
                    found.append(f"{name}:{node.lineno}")
    _none(found)


def _prints(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("print", "click.echo", "click.secho", "Console", "os.write")
    # sys.stdout.isatty() and the like print nothing.
    return isinstance(node, ast.Attribute) and node.attr in ("buffer", "write", "writelines") and _is_stream(node.value)


def _is_stream(node: ast.AST) -> bool:
    return re.match(r"sys\.(__)?std(out|err)", ast.unparse(node)) is not None


def test_no_module_has_state_that_changes() -> None:
    found = []
    for name, path in _written(*PACKAGES):
        for node in _nodes(path):
            if isinstance(node, ast.Global):
                found.append(f"{name}:{node.lineno} global {', '.join(node.names)}")
        for node in _tree(path).body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.List | ast.Dict | ast.Set) and not ast.unparse(value).strip("[]{}"):
                found.append(f"{name}:{node.lineno} an empty container to be filled later")
    _none(found)


def test_tests_do_not_sleep() -> None:
    found = []
    for name, path in _written("tests"):
        for node in _nodes(path):
            if isinstance(node, ast.Call) and _sleeps(node):
                found.append(f"{name}:{node.lineno}")
    _none(found)


def _sleeps(call: ast.Call) -> bool:
    """asyncio.sleep(0) lets the loop turn once: it waits for nothing."""
    return ast.unparse(call.func) in ("time.sleep", "sleep", "asyncio.sleep") and ast.unparse(call.args[0]) != "0"


def test_tests_have_no_deadline_that_a_busy_machine_breaks() -> None:
    """A wait lasts as long as tests/support/patience.py says; a test that is measured in seconds is `slow`."""
    found, used = [], set()
    for name, path in _written("tests"):
        if name.startswith(OF_OTHER_TARGETS):
            continue
        short = [line for line, wait_s in _deadlines(path) if _LOOK_S < wait_s < PATIENCE_S]
        excused = [each for each in SHORT_DEADLINES if name.startswith(each)]
        used.update(excused if short else [])
        found += [f"{name}:{line}" for line in short if not excused]
    _none(found)
    _none([f"{name} has no short deadline" for name in SHORT_DEADLINES if name not in used])


def test_what_a_daemon_has_logged_is_read_as_whole_lines() -> None:
    """Its last line may be cut where a page of the file ends: `Daemon.log` and `Daemon.events` leave that line out."""
    _none(
        [
            f"{name}:{node.lineno}"
            for name, path in _written("tests")
            if name not in READS_LOGS
            for node in _nodes(path)
            if (isinstance(node, ast.Attribute) and node.attr == "stderr_path")
            or (isinstance(node, ast.Constant) and str(node.value).endswith(".stderr"))
        ]
    )


def _deadlines(path: Path) -> Iterator[tuple[int, float]]:
    """The lines that say, as a number, for how long something is waited, and the number in seconds."""
    in_loops, in_coroutines = (
        {id(node) for block in _nodes(path) if isinstance(block, kind) for node in ast.walk(block)}
        for kind in (ast.While, ast.AsyncFunctionDef)
    )
    for node in _nodes(path):
        if isinstance(node, ast.Call):
            polls = ast.unparse(node.func).endswith(".poll")
            for value in _waits_of(node):
                # Our consumers and kafka-python's take milliseconds, and a loop around them looks again.
                is_ms = polls and (id(node) in in_coroutines or value >= 200)
                if not (is_ms and id(node) in in_loops):
                    yield node.lineno, value / 1000 if is_ms else value
        elif isinstance(node, ast.BinOp) and ast.unparse(node.left) in ("time.monotonic()", "monotonic()"):
            yield from ((node.lineno, value) for value in _number(node.right))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if re.search("(PATIENCE|DEADLINE)_M?S$|TIMEOUT_S$", target):
                unit = 1000 if target.endswith("_MS") else 1
                yield from ((node.lineno, value / unit) for value in _number(node.value))


def _waits_of(call: ast.Call) -> Iterator[float]:
    position = _WAITS.get(call.func.attr) if isinstance(call.func, ast.Attribute) else None
    if position is not None:
        for argument in call.args[position : position + 1]:
            yield from _number(argument)
    for keyword in call.keywords:
        if keyword.arg in ("timeout", "timeout_s", "patience_s"):
            yield from _number(keyword.value)
        elif keyword.arg == "consumer_timeout_ms":
            yield from (value / 1000 for value in _number(keyword.value))


def _number(node: ast.expr) -> Iterator[float]:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield float(node.value)  # type: ignore[arg-type]


# In pieces, so that this file does not find itself.
_PRIVATE = re.compile(
    "|".join(
        [
            "pypi" + r"\.org",
            "python" + "hosted",
            "registry" + r"\.npmjs",
            "maven" + r"\.org",
            "maven" + r"\.apache\.org/maven2",
            "crates" + r"\.io",
            "proxy" + r"\.golang",
            "deb" + r"\.debian\.org",
            "artifact" + "ory",
            r"(?<![\w.])/" + r"work/",
            r"(?<![\w.])/" + r"root/",
            r"(?<![\w.])/" + r"tmp/(?!kafka-logs)",
        ]
    )
)
_TEXT_SUFFIXES = {".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".ini", ".sh", ".txt", ".json", ".properties", ""}


def test_nothing_speaks_of_one_machine_or_one_registry() -> None:
    found = []
    for path in _repository_files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if _PRIVATE.search(line):
                found.append(f"{_name(path)}:{number} {line.strip()[:80]}")
    _none(found)


def _repository_files() -> Iterator[Path]:
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.suffix in _TEXT_SUFFIXES and path.name != ".git":
            yield path
    for folder in (*PACKAGES, "tests", "docs", "bench", "examples", ".ci"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in _TEXT_SUFFIXES and "__pycache__" not in path.parts:
                yield path


@pytest.mark.parametrize("package", [*PACKAGES, *LINKED])
def test_each_package_is_typed_for_those_who_use_it(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


_TABLES_OF_SETTINGS = {
    f"oncelog/broker/config/{each}.py"
    for each in (
        *("coordinator_keys", "log_keys", "network_keys", "oncelog_keys", "security_keys"),
        *("group_config", "kafka_names", "topic_keys"),
    )
}
_WITHOUT_EFFECT = "Without effect"


def _unread(settings: Iterable[str], folder: str) -> list[str]:
    """Settings that the sources in `folder` read neither by their name nor as a field."""
    sources = [path.read_text(encoding="utf-8") for name, path in _written(folder) if name not in _TABLES_OF_SETTINGS]
    quoted = {name for text in sources for name in re.findall(r'"([\w.]+)"', text)}
    fields = {name for text in sources for name in re.findall(r"\.(\w+)\b", text)}
    return [name for name in settings if name not in quoted and name not in fields]


def test_every_setting_of_a_broker_has_an_effect() -> None:
    from oncelog.broker.config.broker_keys import BROKER_KEYS
    from oncelog.broker.config.group_config import GROUP_CONFIGS
    from oncelog.broker.config.topic_keys import TOPIC_CONFIGS

    of_topics = {synonym.name for item in TOPIC_CONFIGS.values() for synonym in item.synonyms}
    of_groups = {name for item in GROUP_CONFIGS.values() for name in (item.synonym, item.lowest, item.highest) if name}
    composed = {
        f"{prefix}.{suffix}"
        for prefix in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        for suffix in ("segment.bytes", "num.partitions")
    }
    unread = _unread(BROKER_KEYS.keys() - of_topics - of_groups - composed, "oncelog/broker")
    _none([f"{key}: nothing reads it; move it to UNNEEDED_GROUPS of config/kafka_names.py" for key in unread])


def test_every_setting_of_a_topic_has_an_effect_or_says_that_it_has_none() -> None:
    from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
    from oncelog.broker.log.log_config import LogConfig

    topics = {name.replace(".", "_"): item.key.doc for name, item in TOPIC_CONFIGS.items()}
    parsed = {field.name for field in dataclasses.fields(LogConfig)}
    said = {name for name, doc in topics.items() if doc.startswith(_WITHOUT_EFFECT)}
    assert topics.keys() - parsed == said
    _none([f"{name}: nothing reads it; let it say so" for name in _unread(parsed, "oncelog/broker")])


def test_every_setting_of_a_group_has_an_effect() -> None:
    from oncelog.broker.config.group_config import GROUP_CONFIGS

    _none([f"{name}: nothing reads it" for name in _unread(GROUP_CONFIGS, "oncelog/broker")])


def test_every_setting_of_a_client_has_an_effect() -> None:
    from oncelog.client.admin.settings import AdminSettings
    from oncelog.client.options.settings import ConsumerSettings, ProducerSettings, SessionSettings
    from oncelog.client.options.share_settings import ShareConsumerSettings

    kinds = (AdminSettings, ConsumerSettings, ProducerSettings, SessionSettings, ShareConsumerSettings)
    settings = {field.name: None for kind in kinds for field in dataclasses.fields(kind)}
    _none([f"{name}: nothing reads it" for name in _unread(settings, "oncelog/client")])


# A docstring that only continues the name above it: "Of the newest round.", "As `run`.", "What it may take.".
_FRAGMENT = re.compile(
    r"(Those|That of|The same|As |Of |What |Who |Whose |Whatever|Which |In which|By |Before |After so|Until |For |At |"
    r"From |None |Nobody|Whoever|So |Nor )"
)
MOST_FRAGMENTS = 5
"""Percent of the docstrings of one room."""
LEAST_DOCSTRINGS = 25
MOST_NOBODIES = 3
"""Lines of the product with "nobody" or "whoever", which are said of people only. It may only fall."""


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in _nodes(path):
        body = getattr(node, "body", None)
        for each in body[isinstance(node, ast.Module) :] if isinstance(body, list) else ():
            value = each.value if isinstance(each, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield each.lineno, value.value.lstrip()


def _room(name: str) -> str:
    parts = name.removeprefix("oncelog/").split("/")
    depth = 3 if parts[:2] == ["broker", "storage"] else 2 if parts[0] in ("broker", "tests") else 1
    return "/".join(parts[:depth])


def test_a_docstring_stands_alone() -> None:
    rooms: dict[str, list[str]] = {}
    for name, path in _written(*PACKAGES, "tests"):
        found = [f"{name}:{line}" if _FRAGMENT.match(text) else "" for line, text in _docstrings(path)]
        rooms.setdefault(_room(name), []).extend(found)
    wrong = []
    for room, found in rooms.items():
        fragments, share = [*filter(None, found)], 100 * sum(map(bool, found)) / max(1, len(found))
        if len(found) >= LEAST_DOCSTRINGS and share > MOST_FRAGMENTS:
            wrong.append(f"{room}: {share:.1f} % of its docstrings are fragments: {', '.join(fragments[-5:])}, ...")
    _none(wrong)


def test_nobody_and_whoever_are_people() -> None:
    said = re.compile(r"\b([Nn]obody|[Ww]hoever)\b")
    lines = [
        f"{name}:{number} {line.strip()}"
        for name, path in _written(*PACKAGES)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if said.search(line)
    ]
    assert len(lines) <= MOST_NOBODIES, "\n".join(lines)
    assert len(lines) >= MOST_NOBODIES - 3, f"MOST_NOBODIES may fall to {len(lines)}"
