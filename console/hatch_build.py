"""The build hook of the console: TypeScript to the files that the service serves, by the Deno that PyPI has.

Nothing is built, and Deno is not even downloaded, where the result is there already and of these very sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DENO: Final = "deno==2.9.8"
#: What the result depends on, below console/.
SOURCES: Final = ("package.json", "deno.json", "deno.lock", "build.ts", "index.html", "src")
#: Seconds that a step may take.
STEP_SECONDS: Final = 300


class ConsoleHook(BuildHookInterface[Any]):
    """Builds ``worldledger_service/console/dist`` before a wheel or an editable installation is made."""

    def dependencies(self) -> list[str]:
        """Ask for Deno only where something has to be built."""
        return [] if self._is_fresh else [DENO]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build. Raises RuntimeError if that fails; an editable installation goes on with a warning."""
        del build_data
        if self._is_fresh:
            return
        try:
            self._build()
        except RuntimeError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"{error}\nGoing on without the console: the page at / says what to do.")
        else:
            self._stamp.write_text(self._digest)

    @cached_property
    def _source(self) -> Path:
        return Path(self.root, "console")

    @cached_property
    def _stamp(self) -> Path:
        return Path(self.root, "service", "worldledger_service", "console", "dist", "built-from.txt")

    @cached_property
    def _is_fresh(self) -> bool:
        return self._stamp.exists() and self._stamp.read_text() == self._digest

    @cached_property
    def _digest(self) -> str:
        found = hashlib.sha256(DENO.encode())
        for path in self._files():
            text = path.read_bytes()
            found.update(b"%b\0%d\0%b" % (path.relative_to(self._source).as_posix().encode(), len(text), text))
        return found.hexdigest()

    def _files(self) -> Iterator[Path]:
        for name in SOURCES:
            path = self._source / name
            yield from [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())

    def _build(self) -> None:
        # Not deno.find_deno_bin(): pip's build environment is no venv, and its scripts are not where sysconfig says;
        # but they come first on the PATH. Without build isolation Deno may be beside this Python.
        deno = shutil.which("deno") or shutil.which("deno", path=str(Path(sys.executable).parent))
        if deno is None:
            raise RuntimeError(f"The console could not be built: {DENO} is missing from the build environment.")
        with tempfile.TemporaryDirectory(prefix="worldledger-console-") as cache:
            env = {**os.environ, "DENO_DIR": cache, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
            for words in (["install", "--frozen"], ["run", "--frozen", "--allow-all", "build.ts"]):
                self._step([deno, *words], env)

    def _step(self, command: list[str], env: dict[str, str]) -> None:
        what = f"The console could not be built (deno {' '.join(command[1:])})"
        try:
            done = subprocess.run(
                command,
                cwd=self._source,
                env=env,
                capture_output=True,
                text=True,
                timeout=STEP_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{what}: {error}") from error
        if done.returncode:
            raise RuntimeError(f"{what}:\n{done.stdout}{done.stderr}")


def get_build_hook() -> type[ConsoleHook]:
    """Return the hook: there is one class in this file that hatchling does not know itself."""
    return ConsoleHook
