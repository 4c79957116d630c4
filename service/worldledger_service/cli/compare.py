"""``worldledger compare``: where runs part, and what becomes of them after it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from worldledger.errors import NotComparableError
from worldledger.moments import AUTO
from worldledger_service.cli import output as terminal
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import require_page, written_whole
from worldledger_service.cli.naming import find_world, no_experiment
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import (
    COLUMNS,
    Piece,
    counted,
    cut,
    cut_inside,
    effects,
    plain,
    progress_bar,
    put_bytes,
    put_fitted,
    say,
    shown,
    table,
)
from worldledger_service.report.wording import matrix_of, unit_place, unit_word

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

#: Most characters of a value beside another one.
_MOST: Final = 26
#: Most differences, names and measures that are shown; ``--json`` has more.
_SHOWN: Final = 8
_MEASURES: Final = 20


def compare(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORLD…", help="The worlds to compare: 2 to 20.", show_default=False),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option("--experiment", metavar="NAME", help="Compare the worlds of this experiment.", show_default=False),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="UNIT",
            help="What effects are aligned by: auto (the kind's own: turn, round, ply), seq, step, sim_time or a unit.",
        ),
    ] = AUTO,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="PATH",
            help="A field that makes no difference: payload.clock, payload.moves[*].time, /entities/board/fen. "
            "May be given several times.",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option("--view", metavar="AGENT", help="Compare what this agent saw, too.", show_default=False),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Mean and quartiles of each measure by this: a label of the kind (condition, seed), experiment, or a "
            "member of the configuration.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object, as GET /v1/compare has it.")] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a page with plots to this file.", show_default=False
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show where runs part: the first effect that one has and the other has not, and what becomes of them after it.

    Worlds of one kind are compared effect by effect. Names, uuids, wall times and digests make no difference, nor does
    the order in which agents act within a turn. Of two worlds it shows the first divergence, the states there and in
    the end, the effects since, and the measures of the kind side by side; of more, a matrix of first divergences.

    Examples:
        worldledger compare run-1 run-2
        worldledger compare run-1 run-2 --ignore payload.text --view Trader_1
        worldledger compare --experiment sweep --group condition -o sweep.html
    """
    if (experiment is None) == (not worlds):
        raise typer.BadParameter("give worlds, or --experiment NAME")
    if as_json and output == "-":
        raise typer.BadParameter("stdout has the page; give --output a file to have JSON there")
    if output is not None:
        require_page(output, force=force)

    async def work(store: Store) -> dict[str, Any]:
        from worldledger_service.runtime.comparing import Wanted, compare  # noqa: PLC0415 - slow to load

        records = await _records(store, worlds or [], experiment)
        with progress_bar("comparing", quiet=quiet) as tell:
            return await compare(store, records, Wanted(by, ignore or (), view, group), effects(tell))

    found = with_store(target(ctx, database_url, home), work)
    if output is not None:
        from worldledger_service.report.comparison import write_comparison  # noqa: PLC0415 - slow to load

        with written_whole(output, force=force) as write:
            for piece in write_comparison(found):
                write(piece.encode())
        if not quiet and output != "-":
            say(f"compared {counted(len(found['worlds']), 'world')} to {output}")
    if as_json:
        put_bytes(json.dumps(found, ensure_ascii=False).encode() + b"\n")
    elif output is None:
        put_fitted(_page(found), COLUMNS)


async def _records(store: Store, names: Sequence[str], experiment: str | None) -> list[WorldRecord]:
    if experiment is None:
        return [await find_world(store, name) for name in names]
    from worldledger.chain import Finding  # noqa: PLC0415 - slow to load, as the next; `--help` needs none of it
    from worldledger.comparing import MOST_WORLDS  # noqa: PLC0415

    found = []
    for record in await store.worlds(experiment=experiment, limit=MOST_WORLDS + 1):
        if isinstance(record, Finding):
            raise record.error()
        found.append(record)
    # A fork is no run of its own: it would count what it has in common with its parent twice.
    runs = [record for record in found if (await store.states.rules(record.world_id)).fork_of is None]
    if runs and len(runs) < len(found):
        say(f"left out: {counted(len(found) - len(runs), 'fork')}; name worlds to compare forks")
        found = runs
    if not found:
        raise NotComparableError(await no_experiment(store, experiment))
    if len(found) > MOST_WORLDS:
        raise NotComparableError(f"experiment {experiment!r} has more than {MOST_WORLDS} worlds: name those to compare")
    return found


# -- for people ----------------------------------------------------------------------------------------------


def _page(found: Mapping[str, Any]) -> Iterator[list[Piece]]:
    worlds = found["worlds"]
    names = "abcdefghijklmnopqrst"[: len(worlds)]
    for name, world in zip(names, worlds, strict=True):
        yield [
            (f"{name}  ", "cyan"),
            (cut_inside(world["world_id"], COLUMNS - 20), "bold"),
            (f"  {world['head_seq']} effects", ""),
        ]
        if (fork_of := world["fork_of"]) is not None:
            of = cut_inside(fork_of["world_id"], COLUMNS - 24)
            yield [(f"   from seq {fork_of['global_seq']} of {of}", "")]
    if len(worlds) == 2:
        yield from _two(found)
    else:
        yield from _many(found, names)
    yield from _groups(found)


def _two(found: Mapping[str, Any]) -> Iterator[list[Piece]]:
    (pair,) = found["pairs"]
    if pair["settings"]:
        yield from _titled("settings", differing_fields(pair["settings"], otherwise=COLUMNS))
    beginnings = [each for each in pair["beginnings"] if each["fields"] or None in {each["a"], each["b"]}]
    if beginnings:
        yield []
        yield [(f"before the first {unit_word(found['by'])}", "bold")]
        for each in beginnings[:_SHOWN]:
            yield from _parted(each, pair)
        yield from _more(len(beginnings) - _SHOWN)
    yield []
    divergence = pair["divergence"]
    equal = f"{counted(pair['equal_effects'], 'effect')} equal"
    if pair["shared_effects"]:
        equal += f", {pair['shared_effects']} of them shared"
    if divergence is None:
        yield [("equal" if pair["equal"] else "the same course", "green"), (f": {equal}", "")]
    else:
        yield [("part ", "yellow"), (f"{unit_place(divergence)}, after {equal}", "")]
        yield from _parted(divergence, pair)
    states, views = found["states"], found["views"]
    if divergence is not None or states["first"] is not None or states["stopped"] is not None:
        yield from _looked("states", states, pair)
    if views is not None:
        yield from _looked(f"what {plain(views['agent_id'])} saw", views, pair)
    yield from _after(found["after"])
    yield from _measured(found, divergence)
    outcomes = [world["outcome"] or {} for world in found["worlds"]]
    rows = [[plain(name), *(shown(each.get(name), _MOST) for each in outcomes)] for name in outcomes[0]]
    if rows:
        yield from _titled("outcome", table([["", "a", "b"], *rows], style="cyan", otherwise=COLUMNS))


def _parted(each: Mapping[str, Any], pair: Mapping[str, Any]) -> Iterator[list[Piece]]:
    for name in "ab":
        effect = each[name]
        if effect is None:
            yield [(f"  {name}  ", "cyan"), (f"nothing more {unit_place(each)}", "")]
        else:
            who = cut(plain(effect["source_id"]), 30)
            seq, world = effect["global_seq"], effect["world_id"]
            place = f"seq {seq}" if world == pair[name] else f"seq {seq} of {cut_inside(world, _MOST)}"
            yield [(f"  {name}  ", "cyan"), (f"{place}  {cut(effect['kind'], 24)}  by {who}", "")]
    yield from differing_fields(each["fields"], indent=5, otherwise=COLUMNS)


def differing_fields(
    fields: Sequence[Mapping[str, Any]], indent: int = 2, most: int = _SHOWN, otherwise: int | None = None
) -> Iterator[list[Piece]]:
    """Return fields that differ (`worldledger.comparing.Difference`), a line each: the path, and both values.

    Paths fit the terminal, or ``otherwise`` so many columns (None: any).
    """
    screen = terminal.screen_width() or otherwise
    least = 2 * 10 + 5 + indent  # beside the path
    for field in fields[:most]:
        path = plain(field["path"])
        path = path if screen is None else cut_inside(path, max(screen - least, 10))
        before, after = (_value(field, name) for name in "ab")
        room = max((screen or COLUMNS) - indent - len(path) - 5, 2 * 10)
        yield [
            (" " * indent + path + "  ", ""),
            (cut(before, room // 2), "red"),
            (" | ", ""),
            (cut(after, room // 2), "green"),
        ]
    yield from _more(len(fields) - most, indent)


def _value(field: Mapping[str, Any], name: str) -> str:
    if name in field:
        return shown(field[name], COLUMNS)
    return "-" if f"{name}_missing" in field else f"{field[f'{name}_bytes']} bytes"


def _more(count: int, indent: int = 2) -> Iterator[list[Piece]]:
    if count > 0:
        yield [(" " * indent + f"… and {count} more", "dim")]


def _looked(what: str, found: Mapping[str, Any], pair: Mapping[str, Any]) -> Iterator[list[Piece]]:
    """Return the differences of states or views: where the runs part, where they first differ, and in the end."""
    there, first, stopped = found["divergence"], found["first"], found["stopped"]
    if there is not None:
        yield from _differing(f"{what} there", there, pair)
    if first is not None and (there is None or there["differences"] != first["differences"]):
        yield from _differing(f"{what} {unit_place(first)}, where they first differ", first, pair)
    if stopped is not None:
        place = unit_place(stopped).removeprefix("at ")
        until = "" if stopped["number"] is None else f" up to {place}"
        yield from _titled(f"{what} first", iter([[(f"  alike{until}: no more was looked at", "yellow")]]))
    yield from _differing(f"{what} in the end", found["head"], pair)


def _differing(title: str, found: Mapping[str, Any], pair: Mapping[str, Any]) -> Iterator[list[Piece]]:
    places = []
    for name in "ab":
        seq, world = found[f"{name}_seq"], found[f"{name}_world_id"]
        places.append(f"{name} {seq}" if world == pair[name] else f"{name} {seq} of {cut_inside(world, _MOST)}")
    where = f"{title} ({', '.join(places)})"
    if found["equal"]:
        yield from _titled(where, iter([[("  equal", "green")]]))
        return
    differences = found["differences"]
    yield from _titled(where, differing_fields(differences, otherwise=COLUMNS))
    if found["more"]:
        yield from _more(found["more"])


def _after(after: Mapping[str, Any] | None) -> Iterator[list[Piece]]:
    if after is None:
        return
    rows = [[plain(kind), str(one), str(other)] for kind, (one, other) in after["effects"].items()]
    yield from _titled("effects from there on", table([["", "a", "b"], *rows], style="cyan", otherwise=COLUMNS))
    for what in ("entities", "agents"):
        for name in "ab":
            if after[what][name]:
                yield []
                yield [(f"{what} only in {name}: ", "bold"), (cut(plain(", ".join(after[what][name])), 1000), "")]


def _measured(found: Mapping[str, Any], divergence: Mapping[str, Any] | None) -> Iterator[list[Piece]]:
    """Return a line for each measure: its values where the runs part, and those at the end of each run.

    A measure that a run does not have at its end is none: what it had before, or inherited as a fork, is not its last.
    """
    if not found["series"]:
        return
    ends = [_end(found["series"], run) for run in range(len(found["worlds"]))]
    rows = [["measure", *(["a there", "b there"] if divergence is not None else []), "a last", "b last"]]
    at = None if divergence is None or divergence["unit"] != found["series_unit"] else divergence["number"]
    for each in found["series"][:_MEASURES]:
        numbers = each["numbers"]
        there = [_number(values[numbers.index(at)] if at in numbers else None) for values in each["values"]]
        there = [] if divergence is None else there
        last = [
            _number(values[numbers.index(end)] if end in numbers else None)
            for end, values in zip(ends, each["values"], strict=True)
        ]
        rows.append([cut(plain(each["measure"]), 30), *there, *last])
    yield from _titled(f"measures by {found['series_unit']}", table(rows, style="cyan", otherwise=COLUMNS))
    yield from _more(len(found["series"]) - _MEASURES)


def _end(series: Sequence[Mapping[str, Any]], run: int) -> int | None:
    """Return the last unit of which a run has any measure."""
    columns = [zip(each["numbers"], each["values"][run], strict=True) for each in series]
    return max((number for column in columns for number, value in column if value is not None), default=None)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _many(found: Mapping[str, Any], names: str) -> Iterator[list[Piece]]:
    """Return the matrix of first divergences."""
    cells = matrix_of(found["pairs"], "=", "~", "<")
    ids = [world["world_id"] for world in found["worlds"]]
    size = max(map(len, cells.values()))
    yield []
    yield [(f"first divergence, by {unit_word(found['by'])}", "bold")]
    yield [("(= equal, ~ equal but for the beginning, < before the first)", "")]
    beside = max((COLUMNS - 2) // (size + 1), 1)  # of a wide matrix, as many columns as fit stand beside one another
    for start in range(0, len(ids), beside):
        columns = slice(start, start + beside)
        if start:
            yield []
        yield [("   " + " ".join(name.rjust(size) for name in names[columns]), "cyan")]
        for name, one in zip(names, ids, strict=True):
            row = " ".join(("." if one == other else cells[one, other]).rjust(size) for other in ids[columns])
            yield [(f"{name}  ", "cyan"), (row, "")]


def _groups(found: Mapping[str, Any]) -> Iterator[list[Piece]]:
    """Return each group's measures at the last unit in which all of its runs have them."""
    groups = found["groups"]
    if groups is None:
        return
    rows = [["measure", groups["by"], found["series_unit"], "n", "mean", "q1", "median", "q3"]]
    for each in groups["series"][: 2 * _MEASURES]:
        most = max(each["n"])
        place = max(place for place, n in enumerate(each["n"]) if n == most)
        texts = [_number(each[name][place]) for name in ("mean", "q1", "median", "q3")]
        rows.append(
            [
                cut(plain(each["measure"]), 24),
                cut(plain(each["group"]), 24),
                str(each["numbers"][place]),
                str(most),
                *texts,
            ]
        )
    yield from _titled("the last values of most runs, by group", table(rows, style="cyan", otherwise=COLUMNS))
    yield from _more(len(groups["series"]) - 2 * _MEASURES)


def _titled(title: str, lines: Iterator[list[Piece]]) -> Iterator[list[Piece]]:
    yield []
    yield [(title, "bold")]
    yield from lines
