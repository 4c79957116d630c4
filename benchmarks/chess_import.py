"""Importing recorded games, beside python-chess merely parsing the same files.

The games are real ones where there are some, else those of ``examples``, each copied many times with a tag of its own:
a game is a world by what stands in it. Before each round the server does what the one before has left it to do (VACUUM
and CHECKPOINT), so that a round is measured with its own work alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import asyncpg

from benchmarks.harness import Figure, Report, say

GAMES = 10_000
FILES = 8
ROUNDS = 3
WANTED = 0.7
PROJECT = Path(__file__).resolve().parent.parent
REAL = PROJECT.parent / "shared" / "data" / "pgn"

#: Reads the files that it is given and prints how many games there are, and the seconds that took.
PARSE = """
import sys, time
import chess.pgn

count = 0
start = time.perf_counter()
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as stream:
        while chess.pgn.read_game(stream) is not None:
            count += 1
print(count, time.perf_counter() - start)
"""


async def run(report: Report, url: str, folder: Path) -> None:
    """Measure the whole command, its start and the writing included, in turn with parsing alone in one process."""
    say("importing PGN")
    files, count, size = _write_games(folder / "games")
    say(f"  {count} games, {size / 2**20:.1f} MiB in {len(files)} files")
    parsed, imported = Figure("python-chess parsing games"), Figure("import pgn, games")
    for figure in (parsed, imported):
        report.figures[figure.name] = figure
    await _parse(files[:1])
    await _import(url, files[:1], None, "import")
    for number in range(ROUNDS):
        await _settle(url)
        parsed.rates.append(await _parse(files))
        imported.rates.append(await _import(url, files, count, f"import-{number}"))
    for figure in (parsed, imported):
        say(f"  {figure.name}: {figure.rate:,.0f}/s")
    report.ratio("import pgn over python-chess merely parsing the same files", imported.name, parsed.name, WANTED)


def _write_games(folder: Path) -> tuple[list[Path], int, int]:
    """Write files of games; return them, how many games there are, and the bytes of all."""
    folder.mkdir()
    games = []
    for path in sorted(REAL.rglob("*.pgn") if REAL.is_dir() else (PROJECT / "examples" / "games").glob("*.pgn")):
        text = path.read_text(encoding="utf-8").strip()
        games += [f"[Event {game.strip()}" for game in text.split("[Event ")[1:]]
    copies = -(-GAMES // len(games))
    files = [folder / f"{number}.pgn" for number in range(FILES)]
    for number, file in enumerate(files):
        mine = range(number, copies, FILES)
        file.write_text("".join(f'[Copy "{copy}"]\n{game}\n\n' for copy in mine for game in games), encoding="utf-8")
    return files, copies * len(games), sum(file.stat().st_size for file in files)


async def _parse(files: list[Path]) -> float:
    count, seconds = (await _output(sys.executable, "-c", PARSE, *map(str, files))).split()
    return float(count) / float(seconds)


async def _import(url: str, files: list[Path], count: int | None, experiment: str) -> float:
    program = str(Path(sys.executable).with_name("worldledger"))
    arguments = ["import", "pgn", *map(str, files), "--experiment", experiment, "--database-url", url]
    start = time.perf_counter()
    said = await _output(program, *arguments)
    seconds = time.perf_counter() - start
    imported = int(said.split()[1])
    if count is not None and imported != count:
        raise RuntimeError(said)
    return imported / seconds


async def _settle(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum")
    await connection.execute("checkpoint")
    await connection.close()


async def _output(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed")
    return output.decode()
