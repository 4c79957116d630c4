"""Run the benchmarks on an embedded server of their own and write docs/benchmarks.md.

``python -m benchmarks [appends bulk verification http million states why imports first_views projections agents
variables observations cookbook social_rl arrow chess_moves chess_games chess_import comparing forking frames
console record files starting]``; without names, all of them. ``--only scrubbing`` measures that part of ``console``
alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import uvloop
from worldledger_service.database import embedded, schema
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from benchmarks import (
    agents,
    appends,
    arrow,
    bulk,
    chess_games,
    chess_import,
    chess_moves,
    comparing,
    console,
    cookbook,
    files,
    first_views,
    forking,
    frames,
    http,
    imports,
    million,
    observations,
    projections,
    record,
    social_rl,
    starting,
    states,
    variables,
    verification,
    why,
)
from benchmarks.harness import ROUNDS, Report

ALL = (
    "appends", "bulk", "verification", "http", "million", "states", "why", "imports", "first_views", "projections",
    "agents", "variables", "observations", "cookbook", "social_rl", "arrow", "chess_moves", "chess_games",
    "chess_import", "comparing", "forking", "frames", "console", "record", "files", "starting",
)  # fmt: skip
RESULT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


NOTES = (
    "How to read the lone caller: its append costs a commit and a constant on top, some 20 to 40 µs for the head's row",
    "in the statement (the row *append statement alone*), some 25 to 40 µs in Python for the gate, the hash and the",
    "receipt; groups of callers share both. It is measured without contention: client and server have processors of",
    "their own. Where both share two, the scheduler moves them to and fro, and Python finds its caches cold each time:",
    "the last table has that ratio, too.",
    "",
    "Delivery is the time from the effect's wall_time, when the service has put it together and is about to commit it,",
    "until an agent's client has the frame; so the commit is in it. Intents are sent at random moments, each effect is",
    "seen by ten agents. The echo is the same WebSocket server with nothing behind it, and as many frames as large.",
    "",
)


async def run(url: str, names: list[str], folder: Path, only: str | None) -> Report:
    """Run the named benchmarks on the server at ``url``; of the console, ``only`` one measure if it is named."""
    report = Report()
    main_url = await _database(url, "bench")
    async with Store.open(main_url, Settings()) as store:
        if "appends" in names or "bulk" in names:
            await appends.run(report, main_url, store)
        if "bulk" in names or "verification" in names:
            await bulk.run(report, main_url, store)
        if "verification" in names:
            await verification.run(report, main_url, store)
        if "http" in names:
            await http.run(report, main_url, store)
        if "million" in names:
            await million.run(report, main_url, store, folder, await _database(url, "fresh"))
    if "states" in names:
        states_url = await _database(url, "states")
        async with Store.open(states_url, Settings()) as store:
            await states.run(report, states_url, store)
    if "why" in names:
        why_url = await _database(url, "why")
        async with Store.open(why_url, Settings()) as store:
            await why.run(report, why_url, store)
    if "imports" in names:
        await imports.run(report, await _database(url, "imports"))
    if "first_views" in names:
        views_url = await _database(url, "first_views")
        async with Store.open(views_url, Settings()) as store:
            await first_views.run(report, views_url, store)
    if "projections" in names:
        urls = [await _database(url, name) for name in ("chess", "sandbox")]
        async with Store.open(urls[0], Settings()) as chess, Store.open(urls[1], Settings()) as sandbox:
            await projections.run(report, (urls[0], chess), (urls[1], sandbox))
    if "agents" in names:
        agents_url = await _database(url, "agents")
        async with Store.open(agents_url, Settings()) as store:
            await agents.run(report, agents_url, store)
    if "cookbook" in names:
        cookbook_url = await _database(url, "cookbook")
        async with Store.open(cookbook_url, Settings()) as store:
            await cookbook.run(report, cookbook_url, store)
    if "social_rl" in names:
        social_url = await _database(url, "social_rl")
        async with Store.open(social_url, Settings()) as store:
            await social_rl.run(report, social_url, store, folder)
    if "variables" in names:
        variables.run(report)
    if "observations" in names:
        observations.run(report)
    if "arrow" in names:
        arrow_url = await _database(url, "arrow")
        async with Store.open(arrow_url, Settings()) as store:
            await arrow.run(report, arrow_url, store, folder)
    if "chess_moves" in names:
        moves_url = await _database(url, "chess_moves")
        async with Store.open(moves_url, Settings()) as store:
            await chess_moves.run(report, moves_url, store, folder)
    if "chess_games" in names:
        games_url = await _database(url, "chess_games")
        async with Store.open(games_url, Settings()) as store:
            await chess_games.run(report, games_url, store)
    if "comparing" in names:
        comparing_url = await _database(url, "comparing")
        async with Store.open(comparing_url, Settings()) as store:
            await comparing.run(report, comparing_url, store, folder)
    if "forking" in names:
        forking_url = await _database(url, "forking")
        async with Store.open(forking_url, Settings()) as store:
            await forking.run(report, forking_url, store)
    if "frames" in names:
        frames_url = await _database(url, "frames")
        async with Store.open(frames_url, Settings()) as store:
            await frames.run(report, frames_url, store)
    if "console" in names:
        console_url = await _database(url, "console")
        async with Store.open(console_url, Settings()) as store:
            await console.run(report, console_url, store, folder, only)
    if "record" in names:
        await record.run(report, await _database(url, "record"), folder)
    if "files" in names:
        await files.run(report, await _database(url, "files"), folder)
    if "starting" in names:
        await starting.run(report, await _database(url, "starting"))
    if "chess_import" in names:
        await chess_import.run(report, await _database(url, "chess_import"), folder)
    return report


async def _database(url: str, name: str) -> str:
    connection = await asyncpg.connect(url)
    await connection.execute(f"create database {name}")
    await connection.close()
    made = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    await schema.upgrade(made)
    return made


def write(report: Report, version: int) -> None:
    """Write the table that the docs show."""
    lines = [
        "# Benchmarks",
        "",
        (
            f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {platform.machine()}, "
            f"Python {platform.python_version()}, PostgreSQL {version} (embedded, fsync on, default durability). "
            f"Medians of {ROUNDS} interleaved rounds; the rates belong to that machine, the ratios travel better."
        ),
        "",
        "| measure | found | goal | |",
        "|---|---|---|---|",
        *(goal.line() for goal in report.goals),
        "",
        *NOTES,
        "| what | a second |",
        "|---|---|",
        *(f"| {figure.name} | {figure.rate:,.0f} |" for figure in report.figures.values()),
        "",
        "| what else | found |",
        "|---|---|",
        *(f"| {what} | {value:.2f} {unit}".rstrip() + " |" for what, value, unit in report.found),
        "",
    ]
    RESULT.write_text("\n".join(lines))


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}; without names, all of them")
    parser.add_argument("--only", choices=console.MEASURES, help="with the name console: this measure of it alone")
    given = parser.parse_args()
    names = given.names or list(ALL)
    unknown = set(names) - set(ALL)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(ALL)}")
    if given.only is not None and names != ["console"]:
        parser.error("--only goes with the name console alone")
    with tempfile.TemporaryDirectory(prefix="worldledger-bench-") as folder:
        Path(folder).chmod(0o711)  # as root, the server runs as another user and must get through
        home = Path(folder) / "home"
        with embedded.attach(home, database="postgres") as server:
            report = uvloop.run(run(server.url(), names, Path(folder), given.only))
            version = server.version
        embedded.remove(home)
    if names == list(ALL):
        write(report, version)
    for goal in report.goals:
        print(goal.line())


if __name__ == "__main__":
    main()
