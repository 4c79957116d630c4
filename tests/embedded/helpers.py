"""Tools of these tests: users in processes of their own, SQL on a server, waiting for something to be true."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncpg
import psutil
from worldledger_service.database.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
#: The folders of a checkout that hold packages.
PACKAGES = [ROOT, ROOT / "projections", ROOT / "service", *sorted(ROOT.glob("kinds/*"))]

# Where files are made and copied quickly; kills of processes are no harder to survive on a real disk.
_MEMORY = Path("/dev/shm")
_NEEDED = 1 << 30

# Attaches, says so on a line, answers each line of SQL with its first value, lets go at the end of its input.
# For more turns it comes back just when the supervisor has begun to stop the server.
_USER_PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
import asyncpg
from worldledger_service.database.embedded import attach, status

async def value(url, sql):
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()

options = json.loads(sys.argv[1])
for turn in range(options["turns"]):
    while turn and (state := status(Path(options["home"]))) is not None and state.state != "stopping":
        time.sleep(0.001)
    with attach(Path(options["home"]), **options["attach"]) as server:
        print(json.dumps({"supervisor": server.supervisor_pid, "postmaster": server.postmaster_pid,
                          "data": str(server.data_dir), "url": server.url()}), flush=True)
        if options["interactive"]:
            for line in sys.stdin:
                print(json.dumps(asyncio.run(value(server.url(), line))), flush=True)
        else:
            print(json.dumps(asyncio.run(value(server.url(), options["sql"]))), flush=True)
"""


def new_folder() -> Path:
    """Make a folder that every user may pass through, in memory if there is room and programs may run there."""
    in_memory = False
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        disk = os.statvfs(_MEMORY)
        in_memory = disk.f_bavail * disk.f_frsize > _NEEDED and not disk.f_flag & os.ST_NOEXEC
    base = Path(tempfile.mkdtemp(prefix="wl-test-", dir=_MEMORY if in_memory else None)).resolve()
    base.chmod(0o755)
    return base


def copied(home: Path, to: Path) -> Path:
    """Copy a home whose server does not run, and return the copy."""
    # cp keeps owners, which shutil does not.
    subprocess.run(["cp", "-a", str(home), str(to)], check=True)
    return to


class User:
    """A process that uses a home's server; a context manager that lets it end in order."""

    def __init__(
        self,
        home: Path,
        *,
        name: str | None = None,
        turns: int = 1,
        sql: str | None = None,
        python: str = sys.executable,
        **attach: Any,
    ) -> None:
        options = {"home": str(home), "attach": attach, "turns": turns, "sql": sql, "interactive": sql is None}
        paths = [*map(str, PACKAGES), *(path for path in sys.path if path.endswith("site-packages"))]
        self.process = subprocess.Popen(
            [python, "-c", _USER_PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
            **as_user(name),
        )
        self.server: dict[str, Any] = {}

    def attached(self) -> Self:
        """Wait until it has attached."""
        self.server = self._line()
        return self

    def sql(self, statement: str) -> Any:
        """Have it run one line of SQL and give the first value."""
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line: str = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def end(self) -> str:
        """Let it let go, wait for its end, and give what it had still to say."""
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        return str(out)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.communicate(timeout=120)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def as_user(name: str | None) -> dict[str, Any]:
    """Return the arguments of Popen that make root start a process as another user."""
    if name is None:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def sql(server: EmbeddedServer, statement: str) -> Any:
    """Run one statement and give the first value."""
    return sql_at(server.url(), statement)


def sql_at(url: str, statement: str) -> Any:
    """Run one statement at an address and give the first value."""

    async def run() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(run())


def gone(pid: int | None) -> bool:
    """Tell whether a process has ended (one that only waits to be reaped has)."""
    assert pid is not None
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def servers_of(data: Path) -> list[int]:
    """Return the pids of the server processes whose command line names the data folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        if str(data) in command and command[0].endswith("postgres"):
            found.append(int(process.info["pid"]))
    return found


@cache
def python_for(name: str) -> str | None:
    """Return a Python that this user can run with all that a user process needs, or None."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = [*map(str, PACKAGES), *(path for path in sys.path if path.endswith("site-packages"))]
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            tried = subprocess.run(
                [python, "-c", "import asyncpg, worldledger_service.database.embedded"],
                env={"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                capture_output=True,
                check=False,
                **as_user(name),
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return None
