"""Compiles the hot modules into a wheel with mypyc, if asked to (`make wheel`: `HATCH_BUILD_HOOK_ENABLE_CUSTOM=1`).

Owns: how they are compiled, and where the results are in the wheel. Does not own: which modules (pyproject.toml lists
them). The sources are in the wheel as well: an interpreter that cannot load the compiled modules uses them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import chdir
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# One shared library has all the code, the compiled modules only load it. mypyc would put it beside the package, under a
# name of its own in site-packages; it adds `__mypyc` to this one.
_PACKAGE, _LIBRARY = "oncelog", "_compiled"
# Measured: -O2 takes half as long again to compile.
_OPTIMIZATION = "1"


class CompileHotModules(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return  # an editable installation runs the sources
        self._scratch = TemporaryDirectory(prefix="oncelog-compiled-")
        scratch = Path(self._scratch.name)
        for included in self.build_config.builder.recurse_included_files():
            path = scratch / included.distribution_path
            path.parent.mkdir(parents=True, exist_ok=True)
            copyfile(included.path, path)
        modules = chosen_modules(scratch, self.config["compiled"], self.config["interpreted"])
        self.app.display_info(f"Compiling {len(modules)} modules")
        with chdir(scratch):  # mypyc derives the names of modules from relative paths
            _compile(list(modules.values()), Path("built"))
        for path in (scratch / "built").rglob("*.*"):
            build_data["force_include"][str(path)] = path.relative_to(scratch / "built").as_posix()
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version == "standard":
            self._scratch.cleanup()


def chosen_modules(root: Path, compiled: Sequence[str], interpreted: Sequence[str]) -> dict[str, str]:
    """The paths of all modules that one of the first patterns names, and none of the second, by name. A pattern names a
    module, or a package with everything in it."""
    found = (root / _PACKAGE).rglob("*.py")
    paths = sorted(path.relative_to(root) for path in found if path.name != "__init__.py")
    modules = {".".join(path.with_suffix("").parts): path.as_posix() for path in paths}
    named = {pattern: {name for name in modules if _is_named(name, pattern)} for pattern in (*compiled, *interpreted)}
    for pattern, names in named.items():
        if not names:
            raise ValueError(f"pyproject.toml: no module is named {pattern}")
    chosen = set().union(*map(named.__getitem__, compiled)).difference(*map(named.__getitem__, interpreted))
    return {name: modules[name] for name in sorted(chosen)}


def _is_named(module: str, pattern: str) -> bool:
    return fnmatchcase(module, pattern) or fnmatchcase(module, f"{pattern}.*")


def _compile(paths: Sequence[str], target: Path) -> None:
    # Imported here: only a build that compiles has them.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class BuildInParallel(build_ext):
        def build_extensions(self) -> None:
            _compile_in_parallel(self.compiler)
            super().build_extensions()

    # Types are checked by `make check`, with our settings; here the dependencies may be missing.
    options = ["--config-file=", "--ignore-missing-imports"]
    extensions = mypycify(
        [*options, *paths],
        opt_level=_OPTIMIZATION,
        debug_level="0",
        multi_file=True,
        group_name=f"{_PACKAGE}.{_LIBRARY}",
    )
    for extension in extensions:
        # mypyc makes every warning an error, of any compiler. This one has found a mistake of mypyc: a reference that
        # was released though never set, after `not a and all(b.c for b in d)`, where c may be None.
        extension.extra_compile_args += ["-Wno-error", "-Werror=maybe-uninitialized"]
        extension.include_dirs.append(f"build/{_PACKAGE}")
        if sys.platform == "linux":
            extension.extra_link_args.append("-Wl,--strip-all")
    distribution = Distribution({"name": _PACKAGE, "ext_modules": extensions})
    command = BuildInParallel(distribution)
    command.build_lib, command.build_temp = str(target), "objects"
    command.ensure_finalized()
    command.run()


def _compile_in_parallel(compiler: Any) -> None:
    """setuptools compiles the files of an extension one after the other."""
    compile_all: Callable[..., list[str]] = compiler.compile
    compile_one: Callable[..., None] = compiler._compile

    def compile_on_every_core(*arguments: Any, **options: Any) -> list[str]:
        begun: list[Future[None]] = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiler._compile = lambda *file: begun.append(pool.submit(compile_one, *file))
            objects = compile_all(*arguments, **options)
        for file in begun:
            file.result()
        return objects

    compiler.compile = compile_on_every_core
