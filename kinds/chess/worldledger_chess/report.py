"""The sections of a report that are about chess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.report.blocks import Block, Column, Figure, KindSection, Note, Section, Table, figures_first
from worldledger_service.report.charts import Bars, Histogram, Part, Span, Spans, edges, step_of, steps_for
from worldledger_service.report.wording import counted, seconds, share

if TYPE_CHECKING:
    from asyncpg import Record
    from worldledger_service.report.snapshot import Snapshot


# -- queries ----------------------------------------------------------------------------------------------------

#: How the games ended. From analytics.games.
ENDINGS: Final = """
select status, result, reason, count(*) as games
from analytics.games
where experiment = $1
group by status, result, reason
order by games desc, status collate "C", result collate "C", reason collate "C"
"""

#: Games by name, $2 of them. From analytics.games.
GAMES: Final = """
select world_id, white, black, result, status, plies, illegal_moves_attempted, date
from analytics.games
where experiment = $1
order by world_id
limit $2
"""

#: The players with the most games, $2 of them. From analytics.agent_stats.
PLAYERS: Final = """
select agent_id, sum(games_played)::bigint as games, sum(games_won)::bigint as won,
       sum(games_drawn)::bigint as drawn, sum(games_lost)::bigint as lost, sum(timeouts)::bigint as timeouts,
       sum(total_moves)::bigint as moves, sum(illegal_moves_attempted)::bigint as illegal,
       count(*) over () as players
from analytics.agent_stats
where experiment = $1
group by agent_id
order by games desc, agent_id
limit $2
"""

#: The players with the most illegal attempts, $2 of them. From analytics.agent_stats.
ILLEGAL: Final = """
select agent_id, sum(illegal_moves_attempted)::bigint as illegal, sum(total_moves)::bigint as moves,
       sum(games_played)::bigint as games, count(*) over () as players
from analytics.agent_stats
where experiment = $1
group by agent_id
having sum(illegal_moves_attempted) > 0
order by illegal desc, agent_id
limit $2
"""

#: How long players think over a move, those first with the most moves whose time is known; $2. From analytics.moves.
THINKING: Final = """
select agent_id, count(*) as moves,
       percentile_disc(0.1) within group (order by thinking_time_s) as low,
       percentile_disc(0.5) within group (order by thinking_time_s) as middle,
       percentile_disc(0.9) within group (order by thinking_time_s) as high,
       percentile_disc(0.99) within group (order by thinking_time_s) as far,
       max(thinking_time_s) as most, count(*) over () as players
from analytics.moves
where experiment = $1 and thinking_time_s is not null
group by agent_id
order by moves desc, agent_id
limit $2
"""

#: The lengths of the games that are over. From analytics.games.
LENGTHS: Final = """
select count(*) as games, min(plies) as least, percentile_disc(0.5) within group (order by plies) as middle,
       max(plies) as most
from analytics.games
where experiment = $1 and result is not null
"""

#: How many games that are over have how many half-moves, in steps of $2. From analytics.games.
LENGTHS_BY_STEP: Final = """
select plies / $2 as step, count(*) as games
from analytics.games
where experiment = $1 and result is not null
group by 1
order by 1
"""

#: How games went by their first two half-moves, the most frequent $3; only games from the position $2 of the variant
#: standard. From analytics.games and analytics.moves.
OPENINGS: Final = """
select moves, count(*) as games, count(*) filter (where result = 'white_wins') as white,
       count(*) filter (where result = 'draw') as drawn, count(*) filter (where result = 'black_wins') as black,
       count(*) over () as openings
from (
    select g.world_id, g.result, string_agg(m.san_notation, ' ' order by m.ply) as moves
    from analytics.games g
    join analytics.moves m on m.world_id = g.world_id and m.ply <= 2
    where g.experiment = $1 and g.result is not null and g.variant = 'standard' and g.initial_fen = $2
    group by g.world_id, g.result
    having count(*) = 2) o
group by moves
order by games desc, moves collate "C"
limit $3
"""


#: What this section reads besides the log.
VIEWS: Final = ("games", "moves", "agent_stats")
#: Most games and players that are listed, players and openings that are drawn, and steps of a histogram.
_GAMES: Final = 50
_PLAYERS: Final = 40
_DRAWN: Final = 14
_STEPS: Final = 24
#: Where games of the variant standard begin, unless they say otherwise (FEN).
_START: Final = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

_STATS: Final = """
select agent_id, sum(games_played), sum(games_won)
from analytics.agent_stats
where experiment = $1"""


async def section(snapshot: Snapshot, experiment: str) -> Section:
    """Return the section."""
    endings = await snapshot.rows(ENDINGS, experiment)
    if not endings:
        return Section("chess", "Games of chess", [Note("There is no game in the projections yet.", warning=True)])
    blocks = [
        *await _results(snapshot, experiment),
        *await _illegal(snapshot, experiment),
        *await _openings(snapshot, experiment),
        *await _lengths(snapshot, experiment),
        *await _thinking(snapshot, experiment),
    ]
    games = await _games(snapshot, experiment, sum(row["games"] for row in endings))
    return Section("chess", "Games of chess", [_endings(endings), *figures_first(blocks), games])


def _endings(endings: list[Record]) -> Table:
    columns = (
        Column("status", "Status", "code"),
        Column("result", "Result", "code"),
        Column("reason", "Reason", "code"),
        Column("games", "Games", "whole"),
    )
    return Table("endings", "How the games ended", columns, [tuple(row.values()) for row in endings[:_GAMES]])


async def _games(snapshot: Snapshot, experiment: str, count: int) -> Table:
    rows = await snapshot.rows(GAMES, experiment, _GAMES)
    columns = (
        Column("world_id", "World", "code"),
        Column("white", "White"),
        Column("black", "Black"),
        Column("result", "Result", "code"),
        Column("status", "Status", "code"),
        Column("plies", "Half-moves", "whole"),
        Column("illegal", "Illegal attempts", "whole"),
        Column("date", "Date, as recorded", "code"),
    )
    sql = "select * from analytics.games where experiment = $1 order by world_id"
    return Table.of("games", "Games", columns, rows, count, sql)


# -- players -------------------------------------------------------------------------------------------------


async def _results(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(PLAYERS, experiment, _PLAYERS)
    if not rows:
        return []
    columns = (
        Column("agent_id", "Player"),
        Column("games", "Games over", "whole"),
        Column("won", "Won", "whole"),
        Column("drawn", "Drawn", "whole"),
        Column("lost", "Lost", "whole"),
        Column("timeouts", "Lost on time", "whole"),
        Column("moves", "Moves", "whole"),
        Column("illegal", "Illegal attempts", "whole"),
    )
    sql = f"{_STATS.strip()}\ngroup by agent_id"
    table = Table.of("players", "Results by player", columns, rows, rows[0]["players"], sql)
    shown = [row for row in rows if row["games"]][:_DRAWN]
    if not shown:
        return [table]
    parts = [Part(name, [row[name] / row["games"] for row in shown]) for name in ("won", "drawn", "lost")]
    first = shown[0]
    said = (
        f"Bars: shares of games won, drawn and lost, by player. {first['agent_id']}, with the most games, won "
        f"{share(first['won'] / first['games'])} of {first['games']:,}."
    )
    remarks = [counted(row["games"], "game") for row in shown]
    bars = Bars(said, [row["agent_id"] for row in shown], parts, remarks)
    return [Figure(_title("Results by player", len(shown), rows[0]["players"]), bars, table)]


def _title(title: str, shown: int, count: int) -> str:
    return title if shown == count else f"{title}: the {shown} with the most games"


async def _illegal(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(ILLEGAL, experiment, _DRAWN)
    if not rows:
        return [Note("No player tried an illegal move.")]
    rates = [row["illegal"] / (row["illegal"] + row["moves"]) for row in rows]
    columns = (
        Column("agent_id", "Player"),
        Column("illegal", "Illegal attempts", "whole"),
        Column("moves", "Moves", "whole"),
        Column("games", "Games over", "whole"),
        Column("rate", "Of all attempts", "share"),
    )
    values = [(*tuple(row.values())[:4], rate) for row, rate in zip(rows, rates, strict=True)]
    sql = "select * from analytics.move_rejected where experiment = $1"
    table = Table.of("illegal_attempts", "Illegal attempts by player", columns, values, rows[0]["players"], sql)
    said = f"Bars: how many illegal moves each player tried. {rows[0]['agent_id']} tried the most."
    remarks = [f"{row['illegal']:,} · {share(rate)}" for row, rate in zip(rows, rates, strict=True)]
    bars = Bars(
        said, [row["agent_id"] for row in rows], [Part("illegal attempts", [row["illegal"] for row in rows])], remarks
    )
    note = "Percents are of all that the player tried, legal or not."
    return [Figure("Illegal attempts by player", bars, table, note)]


async def _thinking(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(THINKING, experiment, _DRAWN)
    if not rows:
        return [Note("No move tells how long it was thought about.")]
    columns = (
        Column("agent_id", "Player"),
        Column("moves", "Timed moves", "whole"),
        Column("p10", "10 %", "seconds"),
        Column("p50", "Median", "seconds"),
        Column("p90", "90 %", "seconds"),
        Column("p99", "99 %", "seconds"),
        Column("most", "Longest", "seconds"),
    )
    sql = "select * from analytics.moves where experiment = $1 and thinking_time_s is not null"
    table = Table.of("thinking_time", "Thinking time for a move", columns, rows, rows[0]["players"], sql)
    spans = [
        Span(row["agent_id"], row["low"], row["middle"], row["high"], row["far"], f"median {seconds(row['middle'])}")
        for row in rows
    ]
    said = "Ranges of thinking time by player. " + " ".join(f"{span.label}: {span.remark}." for span in spans)
    chart = Spans(said, "seconds", ("10 %", "median", "90 %", "99 %"), spans)
    return [Figure("Thinking time for a move", chart, table, "Of the moves whose time is known.")]


# -- games ---------------------------------------------------------------------------------------------------


async def _lengths(snapshot: Snapshot, experiment: str) -> list[Block]:
    (found,) = await snapshot.rows(LENGTHS, experiment)
    if not found["games"]:
        return []
    if found["least"] == found["most"]:
        return [Note(f"Every game that is over has {counted(found['most'], 'half-move')}.")]
    step = step_of(found["least"], found["most"], steps_for(found["games"], _STEPS))
    rows = await snapshot.rows(LENGTHS_BY_STEP, experiment, step)
    counts = {row["step"]: row["games"] for row in rows}
    bounds = edges(step, found["most"], found["least"])
    games = [counts.get(edge // step, 0) for edge in bounds[:-1]]
    table = Table(
        "game_lengths",
        "Games that are over, by length",
        (
            Column("from", "Half-moves from", "whole"),
            Column("below", "To below", "whole"),
            Column("games", "Games", "whole"),
        ),
        [*zip(bounds, bounds[1:], games, strict=False)],
    )
    said = (
        f"Histogram of the lengths of {counted(found['games'], 'game')}: from {found['least']:,} to "
        f"{counted(found['most'], 'half-move')}, the median is {found['middle']:,}."
    )
    marked = (float(found["middle"]), f"median {found['middle']:,}")
    return [Figure("Length of games", Histogram(said, "half-moves", "games", bounds, games, marked), table)]


async def _openings(snapshot: Snapshot, experiment: str) -> list[Block]:
    rows = await snapshot.rows(OPENINGS, experiment, _START, _DRAWN)
    if not rows:
        return []
    columns = (
        Column("moves", "First moves", "code"),
        Column("games", "Games", "whole"),
        Column("white", "White won", "whole"),
        Column("drawn", "Drawn", "whole"),
        Column("black", "Black won", "whole"),
        Column("rate", "White won", "share"),
    )
    values = [
        (f"1. {row['moves']}", row["games"], row["white"], row["drawn"], row["black"], row["white"] / row["games"])
        for row in rows
    ]
    sql = (
        "select world_id, string_agg(san_notation, ' ' order by ply) from analytics.moves "
        "where experiment = $1 and ply <= 2 group by world_id"
    )
    table = Table.of("openings", "Results by the first moves", columns, values, rows[0]["openings"], sql)
    parts = [
        Part(label, [row[name] / row["games"] for row in rows])
        for label, name in (("White won", "white"), ("drawn", "drawn"), ("Black won", "black"))
    ]
    said = (
        f"Bars: shares of games that White won, that were drawn and that Black won, by each player's first move. Most "
        f"frequent is {values[0][0]}, with {counted(rows[0]['games'], 'game')}."
    )
    remarks = [counted(row["games"], "game") for row in rows]
    title = _title("Results by the first moves", len(rows), rows[0]["openings"])
    return [
        Figure(title, Bars(said, [row[0] for row in values], parts, remarks), table, "Games from the usual position.")
    ]


#: What a report says of experiments with such worlds.
SECTION: Final = KindSection(section, VIEWS)
