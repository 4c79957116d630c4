"""Import of social-RL runs, against what no import can do without: parsing the files, and COPY of their very bytes.

The peer's table has a row for each file, and a primary key. It makes no effects and chains nothing, and writes all of
it by one COPY.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import orjson
from worldledger_service.store import Store
from worldledger_social_rl.store import import_runs

from benchmarks.harness import Goal, Report, say
from benchmarks.million import command

RUNS, ROUNDS, AGENTS, TURNS = 300, 3, 4, 3
#: Words of a message, so that it has about 2 kB; and messages of a round of 100 MB.
WORDS_SAID, BIG_MESSAGES = 280, 47_000
BIG_LIMIT_MIB = 1000

PEER, OURS = "bytes of rounds parsed and copied", "bytes of rounds imported"
WORDS = ("water", "gate", "hour", "mill", "reason", "rule", "field", "summer", "give", "take", "wait", "ask", "share")
TABLE = """
drop table if exists bare_files;
create table bare_files (run text collate "C", file text collate "C", body json not null, primary key (run, file))
"""


def text(pick: random.Random, words: int) -> str:
    """Return some words."""
    return " ".join(pick.choices(WORDS, k=words)) + "."


def round_of(pick: random.Random, number: int, messages: int, words: int) -> dict[str, Any]:
    """Return a round, as large as those of real runs."""
    agents = [f"Worker+Agent{n}" for n in range(AGENTS)]
    said = [
        {
            "agent_id": agents[turn % AGENTS],
            "content": text(pick, words),
            "round_number": number,
            "turn_number": turn + 1,
            "timestamp": 1.7e9 + 1000 * number + turn,
            "prar_cue_used": text(pick, 30),
            "feedback_snapshot": {"engagement": pick.random(), "theoretical_alignment": pick.random()},
            "validation_metadata": {"attempts": 1, "validations": [], "filtered": False, "used_dual_llm": True},
        }
        for turn in range(messages)
    ]
    feedback = {
        agent: {
            "agent_id": agent,
            "round_number": number,
            "engagement": pick.random(),
            "theoretical_alignment": pick.random(),
            "contribution_value": pick.random(),
            "direct_references": 2,
            "response_received": 1,
            "concepts_embodied": ["dependence"],
            "analyst_mentions": 0,
            "synthesis_inclusion": pick.random(),
        }
        for agent in agents
    }
    adaptations = [
        {
            "agent_id": agent,
            "adaptation_type": "activate_cue",
            "cue": "answer",
            "reason": "engagement is low",
            "round_number": number,
            "feedback_trigger": {"engagement": pick.random()},
        }
        for agent in agents
    ]
    return {
        "round_number": number,
        "messages": said,
        "feedback": feedback,
        "policy_adaptations": adaptations,
        "synthesis": text(pick, 60),
        "duration_seconds": 135.5,
    }


def write_runs(folder: Path) -> int:
    """Write the runs; return how many bytes they have."""
    pick = random.Random(1)
    size = 0
    for run in range(RUNS):
        made = folder / f"run{run:03}"
        made.mkdir(parents=True)
        files: dict[str, Any] = {
            "meta.json": {"experiment_id": f"bench-{run}", "condition": "AB"[run % 2], "seed": run}
        }
        for number in range(1, ROUNDS + 1):
            files[f"round{number}_social_rl.json"] = round_of(pick, number, AGENTS * TURNS, WORDS_SAID)
        for name, value in files.items():
            size += (made / name).write_text(json.dumps(value, indent=2), encoding="utf-8")
    return size


async def run(report: Report, url: str, store: Store, folder: Path) -> None:
    """Measure the import in this process and by the command, and the memory that a big round takes."""
    say("social-RL runs")
    runs = folder / "runs"
    size = await asyncio.to_thread(write_runs, runs)
    say(f"  {RUNS} runs, {size / 1e6:.0f} MB")
    connection = await asyncpg.connect(url)
    imports = 0

    async def peer() -> int:
        await connection.execute(TABLE)
        await connection.copy_records_to_table("bare_files", records=_records(runs))
        return size

    async def ours() -> int:
        nonlocal imports
        imports += 1
        summary = await import_runs(store, [runs], experiment=f"bench-{imports}")
        assert summary.imported == RUNS
        return size

    await report.compare({PEER: peer, OURS: ours})
    await connection.close()
    report.ratio("import of social-RL runs over parsing and COPY of their bytes", OURS, PEER, 0.5)
    whole = await asyncio.to_thread(_by_command, runs, url)
    report.tell("import social-rl, the whole command, over the same", size / whole / report.figures[PEER].rate, "")
    await asyncio.to_thread(_big, report, folder / "big", url)


def _records(runs: Path) -> Any:
    for path in sorted(runs.glob("*/*.json")):
        data = path.read_bytes()
        orjson.loads(data)
        yield path.parent.name, path.name, data.decode()


def _by_command(runs: Path, url: str) -> float:
    arguments = [
        "-m",
        "worldledger_service.cli",
        "import",
        "social-rl",
        str(runs),
        "--experiment",
        "by-command",
        "--database-url",
        url,
    ]
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def _big(report: Report, folder: Path, url: str) -> None:
    folder.mkdir()
    value = round_of(random.Random(2), 1, BIG_MESSAGES, WORDS_SAID)
    size = (folder / "round1_social_rl.json").write_text(json.dumps(value, indent=2), encoding="utf-8")
    start = time.perf_counter()
    peak = command(["import", "social-rl", str(folder), "--database-url", url])
    say(f"  a round of {size / 1e6:.0f} MB: {time.perf_counter() - start:.0f} s")
    report.note(Goal("import of a round of 100 MB: peak memory", peak, BIG_LIMIT_MIB, at_least=False, unit="MiB"))
