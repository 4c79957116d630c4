"""One PostgreSQL data folder: creating, starting, watching and stopping its server and its processes, without users.

The durability settings are on the server's command line, which no configuration file can override: an acknowledged row
is on disk.
"""

from __future__ import annotations

import ctypes
import enum
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.accounts import CLEAN_ENVIRONMENT, Account, refusal, run_as
from worldledger_service.database.embedded.binaries import Binaries
from worldledger_service.database.embedded.home import USER, Home, log_size, log_tail, sync_folder
from worldledger_service.database.embedded.place import Place, sweep_sockets

# -- processes: identifying the process of a pid, and ending a server with its supervisor -----------------
#
# A pid in a file proves little: it may have been given to another process since. Before acting on one, ``relation``
# asks the system what that process is.


# The mark of our servers on their command lines, and in the process list.
CLUSTER_NAME: Final = "worldledger"

Guard = Literal["signal", "pipe"]
# Linux can signal a process when its parent dies; elsewhere a small watcher does it.
DEFAULT_GUARD: Final[Guard] = "signal" if sys.platform == "linux" else "pipe"

_PR_SET_PDEATHSIG: Final = 1


class Relation(enum.Enum):
    """The relation of a pid found in a file to us."""

    GONE = "gone"
    OURS = "ours"  # a server on this data folder, started by a supervisor
    FOREIGN = "foreign"  # a server on this data folder that was started in another way
    STRANGER = "stranger"  # an unrelated process that was given the same pid


def relation(pid: int, data: Path) -> Relation:
    """Return the relation of the process ``pid`` to the data folder."""
    command = _command_line(pid)
    if command is None:
        return Relation.GONE
    program = Path(command[0]).name if command else ""
    if program not in {"postgres", "postmaster"} or not _works_in(pid, command, data):
        return Relation.STRANGER
    return Relation.OURS if f"cluster_name={CLUSTER_NAME}" in command else Relation.FOREIGN


def _command_line(pid: int) -> list[str] | None:
    """Return a process's arguments; empty for one without any (a zombie), None if there is no such process."""
    if not _exists(pid):
        return None
    if Path("/proc/self/cmdline").exists():
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return [] if _exists(pid) else None
        return [os.fsdecode(part) for part in text.rstrip(b"\0").split(b"\0") if part]
    account = Account("", os.geteuid(), os.getegid(), switch=False)
    answer = run_as(account, ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)])
    return answer.stdout.split() if answer.returncode == 0 else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _works_in(pid: int, command: list[str], data: Path) -> bool:
    """Return whether a server's process works in the data folder: it changes to it, and -D names it."""
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        # No /proc, or no permission: use the arguments. Joined, because ps gives no quotes around spaces.
        return f" -D {data} " in f" {' '.join(command)} "


# -- a server ends with its supervisor ---------------------------------------------------------------------


def launch(
    command: list[str],
    account: Account,
    *,
    output: int,
    environment: dict[str, str] | None = None,
    ends_with_us: signal.Signals | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program as the server's user, from ``/``, with its output going to the descriptor ``output``.

    With ``ends_with_us`` (Linux only) the kernel sends that signal to it when this process dies in any way. Call it
    from the main thread: the kernel watches the thread that started the program. Raises ``EmbeddedServerError`` if the
    program cannot be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - the programs that binaries.py found, our own arguments
            command,
            cwd="/",
            env={**CLEAN_ENVIRONMENT, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # This process has one thread, so running Python between fork and exec is safe.
            preexec_fn=_death_signal(ends_with_us) if ends_with_us is not None else None,  # noqa: PLW1509
            **account.popen(),
        )
    except OSError as error:
        raise refusal(error, f"run as the user {account.name!r}", Path(command[0])) from error
    except subprocess.SubprocessError as error:
        raise refusal(OSError(0, str(error)), "start", Path(command[0])) from error


def _death_signal(number: signal.Signals) -> Callable[[], None]:
    """Return a function that the child runs just before exec.

    It runs after the change of user, which would have cleared the setting again (prctl(2), PR_SET_PDEATHSIG).
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arm() -> None:
        # If the parent died before prctl, no signal will come.
        if prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)

    return arm


class Watcher:
    """Sends SIGINT to a server when this process dies: for systems without a signal for that.

    A shell waits on a pipe that only this process can write to, and never does: the end of the pipe is our death.
    """

    def __init__(self, pid: int, account: Account) -> None:
        read_end, self._write_end = os.pipe()
        try:
            self._shell = subprocess.Popen(  # noqa: S603 - a fixed program
                ["/bin/sh", "-c", 'read -r nothing; kill -INT "$1"', "sh", str(pid)],
                cwd="/",
                env=CLEAN_ENVIRONMENT,
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **account.popen(),
            )
        except OSError as error:
            os.close(self._write_end)
            raise refusal(error, "run", Path("/bin/sh")) from error
        finally:
            os.close(read_end)

    def dismiss(self) -> None:
        """End the watch without a signal; the server has ended (its pid may be reused soon)."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._write_end)


# Seconds: a fast shutdown writes a checkpoint; an immediate one only ends processes.
_FAST_STOP_SECONDS: Final = 30.0
_IMMEDIATE_STOP_SECONDS: Final = 10.0


def _shared_buffers() -> str:
    """Return the size of the server's page cache: an eighth of the machine's memory, within bounds."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return "128MB"
    return f"{min(512, max(128, memory // 8 >> 20))}MB"


_SETTINGS: Final = {
    "cluster_name": CLUSTER_NAME,
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "max_wal_size": "2GB",
    # PostgreSQL's own default is 128 MB: with that, a query over a million effects takes a fifth longer.
    "shared_buffers": _shared_buffers(),
    "logging_collector": "off",
    "log_destination": "stderr",
}

#: The version that can bound the queue of NOTIFY, and a size in pages, 64 MiB: a reader's login can fill all of it, and
#: PostgreSQL's usual size is 8 GB. Wake-ups between processes need little, and do without.
_KNOWS_QUEUE: Final = 17
_QUEUE_PAGES: Final = "8192"

# PostgreSQL's messages while processes of a killed server are still ending: another try may succeed.
_PASSING: Final = ("pre-existing shared memory block", "lock file", "is being used by")


def major_of(data: Path) -> int | None:
    """Return the major version of a data folder, or None if there is no cluster yet (as in an empty folder).

    Raises ``EmbeddedServerError`` for a folder with other things in it.
    """
    try:
        return int((data / "PG_VERSION").read_text(encoding="ascii").split(".")[0])
    except FileNotFoundError:
        if not data.exists() or not any(data.iterdir()):
            return None
        problem = "it has files but no PG_VERSION"
    except (OSError, ValueError) as error:
        problem = str(error)
    raise EmbeddedServerError(
        f"{data} is not a PostgreSQL data folder ({problem}): move it away, or name another folder with --home",
        path=str(data),
    )


def create(place: Place, binaries: Binaries, password: str, home: Home) -> None:
    """Create a cluster with initdb: beside its place first, then renamed, so that an incomplete one is never used.

    Text is UTF-8, ordered by code point; passwords are SCRAM; pages have checksums. Raises ``EmbeddedServerError``.
    """
    for left in place.root.glob("data.new-*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    aside = place.root / f"data.new-{secrets.token_hex(4)}"
    password_file = aside.with_name(aside.name + ".password")
    account = place.account
    log = home.supervisor_log
    output = home.open_log(log)
    mark = log_size(log)
    try:
        aside.mkdir(mode=0o700)
        fd = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(password + "\n")
            if account.switch:
                os.fchown(fd, account.uid, account.gid)
        if account.switch:
            os.chown(aside, account.uid, account.gid, follow_symlinks=False)
        command = [binaries.initdb, "-D", str(aside), "-U", USER, "-A", "scram-sha-256"]
        command += [f"--pwfile={password_file}", "-E", "UTF8", "--data-checksums", "--no-instructions"]
        code = _run_initdb([*command, *_locale(binaries)], account, output)
        if code != 0:
            raise EmbeddedServerError(
                f"PostgreSQL could not set up its data folder under {place.root} (initdb ended with {code}):"
                f" {_last_words(log, mark)}. The whole log is {log}",
                home=str(home.path),
            )
        aside.rename(place.data)
        sync_folder(place.root)
    except OSError as error:
        raise refusal(error, "set up the data folder", place.data) from error
    finally:
        os.close(output)
        with suppress(OSError):
            password_file.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)


def _run_initdb(command: list[str], account: Account, output: int) -> int:
    death_signal = signal.SIGTERM if DEFAULT_GUARD == "signal" else None
    return launch(command, account, output=output, ends_with_us=death_signal).wait()


def _locale(binaries: Binaries) -> list[str]:
    """Choose code-point order by the means of this version; the same order everywhere."""
    if binaries.major >= 17:
        return ["--locale-provider=builtin", "--locale=C.UTF-8"]
    # The system's C.UTF-8 if it exists (not on every macOS); plain C orders UTF-8 the same way.
    known = subprocess.run(
        ["/usr/bin/env", "locale", "-a"], env=CLEAN_ENVIRONMENT, capture_output=True, text=True, check=False
    )
    names = {name.strip().lower().replace("-", "") for name in known.stdout.splitlines()}
    return ["--locale=C.UTF-8"] if "c.utf8" in names else ["--locale=C"]


def set_password(place: Place, binaries: Binaries, password: str) -> None:
    """Give the database user a new password while no server runs: the home's password file was lost.

    Raises ``EmbeddedServerError``.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own program and arguments
            [binaries.postgres, "--single", "-D", str(place.data), "postgres"],
            input=f"ALTER ROLE {USER} PASSWORD '{password}'\n",
            cwd="/",
            env=CLEAN_ENVIRONMENT,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **place.account.popen(),
        )
    except OSError as error:
        raise refusal(error, "run", Path(binaries.postgres)) from error
    if done.returncode != 0 or "ERROR" in done.stderr:
        said = (done.stderr.strip() or "no message").splitlines()[-1]
        raise EmbeddedServerError(f"could not set a new password for the data in {place.data}: {said}")


@dataclass(frozen=True)
class Cluster:
    """An existing data folder, with everything needed to run its server."""

    place: Place
    binaries: Binaries
    home: Home
    socket_dir: Path
    port: int
    tcp: bool
    guard: Guard

    def clear_the_way(self, wait: Callable[[float], None]) -> int | None:
        """Remove what a former server left: end it if it is alive and ours, delete its sockets.

        Returns the pid in a stale postmaster.pid that was given to an unrelated process since, if any: that process is
        left alone, and PostgreSQL is told to ignore it. Raises ``EmbeddedServerError`` if a server that is not ours
        runs on the data folder.
        """
        recycled: int | None = None
        began = time.monotonic()
        while (pid := _noted_pid(self.place.data)) is not None:
            kind = relation(pid, self.place.data)
            if kind is Relation.FOREIGN:
                raise EmbeddedServerError(
                    f"a PostgreSQL that was started by hand (pid {pid}) runs on {self.place.data}: stop it"
                    f" (kill -INT {pid}) and run this again",
                    pid=pid,
                )
            if kind is not Relation.OURS:
                recycled = pid if kind is Relation.STRANGER else None
                break
            waited = time.monotonic() - began
            with suppress(ProcessLookupError):
                if waited > _FAST_STOP_SECONDS + _IMMEDIATE_STOP_SECONDS:
                    os.kill(pid, signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGQUIT if waited > _FAST_STOP_SECONDS else signal.SIGINT)
            wait(0.1)
        sweep_sockets(self.socket_dir)
        return recycled

    def start(self, wait: Callable[[float], None]) -> Postmaster:
        """Start the server; it is usable only when ``Postmaster.ready`` says so. ``wait`` sleeps some seconds."""
        recycled = self.clear_the_way(wait)
        listen = "127.0.0.1" if self.tcp else ""
        settings = {**_SETTINGS, "listen_addresses": listen, "port": str(self.port)}
        if self.binaries.major >= _KNOWS_QUEUE:
            settings["max_notify_queue_pages"] = _QUEUE_PAGES
        command = [self.binaries.postgres, "-D", str(self.place.data), "-k", f'"{self.socket_dir}"']
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        # pg_ctl's way to say "this pid is not a server": the other checks for a server's leftovers stay in force.
        environment = {"PG_GRANDPARENT_PID": str(recycled)} if recycled else {}
        mark = log_size(self.home.server_log)
        output = self.home.open_log(self.home.server_log)
        try:
            process = launch(
                command,
                self.place.account,
                output=output,
                environment=environment,
                ends_with_us=signal.SIGINT if self.guard == "signal" else None,
            )
        finally:
            os.close(output)
        watcher = Watcher(process.pid, self.place.account) if self.guard == "pipe" else None
        return Postmaster(process, self, mark, watcher)


class Postmaster:
    """A started server: the supervisor's child."""

    def __init__(self, process: subprocess.Popen[bytes], cluster: Cluster, mark: int, watcher: Watcher | None) -> None:
        self.pid = process.pid
        self._process = process
        self._cluster = cluster
        self._mark = mark
        self._watcher = watcher

    def ready(self) -> bool:
        """Return whether it accepts connections: postmaster.pid has our pid in line 1 and "ready" in line 8."""
        try:
            text = (self._cluster.place.data / "postmaster.pid").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        lines = text.splitlines()
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def exit_code(self) -> int | None:
        """Return the exit code if the server has ended (negative: the signal that killed it), else None."""
        code = self._process.poll()
        if code is not None:
            self._dismiss_watcher()
        return code

    def failure(self) -> tuple[EmbeddedServerError, bool]:
        """Return the error for a server that ended before it was ready, and whether another try may succeed."""
        log = self._cluster.home.server_log
        said = log_tail(log, self._mark)
        error = EmbeddedServerError(
            f"PostgreSQL ended (code {self.exit_code()}) before it was ready:"
            f" {_last_words(log, self._mark)}. The whole log is {log}",
            home=str(self._cluster.home.path),
        )
        return error, any(words in said for words in _PASSING)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the server and wait: fast shutdown, then immediate, and SIGKILL if even that does not end it.

        With ``at_once`` nothing is written any more: the data folder is gone.
        """
        steps = [(signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS), (signal.SIGKILL, None)]
        if not at_once:
            steps.insert(0, (signal.SIGINT, _FAST_STOP_SECONDS))
        for number, seconds in steps:
            self._process.send_signal(number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            break
        self._dismiss_watcher()

    def _dismiss_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.dismiss()
            self._watcher = None


def _noted_pid(data: Path) -> int | None:
    try:
        first = (data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        return abs(int(first)) or None  # negative: a single-user server
    except (OSError, ValueError):
        return None


def _last_words(log: Path, mark: int) -> str:
    """Return PostgreSQL's last messages, on one line: errors if there are any."""
    lines = [line.strip() for line in log_tail(log, mark, lines=40).splitlines() if line.strip()]
    errors = [line for line in lines if any(word in line for word in ("FATAL", "PANIC", "ERROR", "error:"))]
    return " / ".join((errors or lines)[-3:]) or "it said nothing"
