"""How the variables of simulations changed over turns: one row for each value that a turn changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson
from worldledger_projections.base import (
    ANALYTICS,
    WORLD,
    Changes,
    Column,
    Projection,
    Row,
    View,
    WorldProjection,
    moment,
    needed,
)
from worldledger_projections.tables import INHERITED, NO_FORK, WITH_FORKS

from worldledger.effects import Effect
from worldledger.errors import stepped
from worldledger.folding import Fold
from worldledger.world import state_text
from worldledger_simulation.rules.words import (
    AGENT_ADDED,
    AGENT_REMOVED,
    AGENT_STATE_CHANGED,
    GLOBAL,
    GLOBAL_STATE_CHANGED,
    TURN,
)

# -- the values in rows: the leaves in which two states of an entity differ, and their paths ------------------------

#: Stands for a missing leaf.
MISSING: Final = object()


class Difference(NamedTuple):
    """A leaf that has changed: its variable and path, and its values, or MISSING.

    A leaf is a number, a text, a bool or null, or an empty object or list.
    """

    variable: str
    path: str
    before: Any
    after: Any


def differences(
    before: dict[str, Any] | None, after: dict[str, Any] | None, *, but: str | None
) -> Iterator[Difference]:
    """Return the leaves in which an entity's variables differ; None: no entity. ``but`` is not a variable.

    1, 1.0 and true are three values, as in the log. If a leaf becomes an object of leaves, or the other way round, the
    former value is removed first.
    """
    before, after = before or {}, after or {}
    for variable, one, other in _members(before, after):
        if variable != but:
            for found in _differences(stepped("", variable), one, other):
                yield Difference(variable, *found)


def _members(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Return the members in which two objects differ."""
    for key, one in before.items():
        other = after.get(key, MISSING)
        if not _same(one, other):
            yield key, one, other
    for key, other in after.items():
        if key not in before:
            yield key, MISSING, other


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Return the leaves in which two different values differ."""
    if before and after and type(before) is type(after) is dict:
        for key, one, other in _members(before, after):
            yield from _differences(stepped(path, key), one, other)
    elif before and after and type(before) is type(after) is list:
        for index, (one, other) in enumerate(zip_longest(before, after, fillvalue=MISSING)):
            if not _same(one, other):
                yield from _differences(stepped(path, index), one, other)
    elif _is_leaf(before) and _is_leaf(after):
        yield path, before, after
    else:
        for leaf, value in _leaves(path, before):
            yield leaf, value, MISSING
        for leaf, value in _leaves(path, after):
            yield leaf, MISSING, value


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; False is possible for equal objects with another order of members."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    return orjson.dumps(one) == orjson.dumps(other) if type(one) in (dict, list) else bool(one == other)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is MISSING:
        return
    if _is_leaf(value):
        yield path, value
    elif type(value) is dict:
        for key, item in value.items():
            yield from _leaves(stepped(path, key), item)
    else:
        for index, item in enumerate(value):
            yield from _leaves(stepped(path, index), item)


def _is_leaf(value: Any) -> bool:
    return not value or type(value) not in (dict, list)


#: Most bytes of an agent's name and a path together: they must fit into an index.
MAX_KEY: Final = 2300
#: The member of an agent's entity that is not a variable.
_NAME: Final = "name"
_SHOWN: Final = 60

#: A row's agent, path and turn.
_Key = tuple[str, str, int]

_COLUMNS: Final = (
    WORLD,
    Column("turn", "bigint", "The turn that left this value; 0 is before the first turn."),
    Column("agent", "text", "The agent's name; global for a global variable."),
    Column("variable", "text", "The variable: what the path begins with."),
    Column("path", "text", "The value's place: gold, inventory.food, history[0]."),
    Column("value", "json", "The value: a number, a text, a bool, null, {} or []; null where removed.", True),
    Column("number", "double precision", "The value where it is a number.", True),
    Column("text", "text", "The value where it is a text.", True),
    Column("flag", "boolean", "The value where it is a bool.", True),
    Column("removed", "boolean", "Whether there is no such value any more from this turn on."),
    Column("previous", "json", "The value at the end of the turn before; null where there was none.", True),
    Column("global_seq", "bigint", "The last effect of the turn that changed the value."),
    Column("sim_time", "double precision", "The sim_time of that effect, in seconds."),
    Column("recorded_at", "timestamptz", "The wall_time of that effect."),
)
_PLACES: Final = {column.name: place for place, column in enumerate(_COLUMNS)}

# Worlds first, then a world's rows, then the turns that each row covers: so an index serves queries for an experiment,
# a world, or an agent and path. (Without the offset PostgreSQL would compare each of a world's turns with each row.) A
# turn is listed once the rows have reached it, however far the projection of turns is.
_BY_TURN: Final = """
select w.world_id, w.experiment, t.turn, s.agent, s.variable, s.path, s.value, s.number, s.text, s.flag,
       s.turn as since_turn, s.global_seq, s.sim_time, s.recorded_at
from public.worlds w
join public.projection_cursors c on c.build = '{build}' and c.world_id = w.world_id
cross join lateral (
    select v.*, lead(v.turn, 1, 9223372036854775807) over (partition by v.agent, v.path order by v.turn) - 1 as until
    from state_variables v where v.world_id = w.world_id) s
cross join lateral (
    select o.turn from turns o
    where o.world_id = w.world_id and o.turn between s.turn and s.until and o.started_seq <= c.global_seq offset 0) t
where w.ruleset = 'simulation' and not s.removed
"""

# The history of a fork: rows of its ancestors up to the fork points, then its own. Of each leaf they are one series, in
# which a row holds until the next. Two things make it more than a join:
#
# - A turn that was under way at a fork point goes on in the fork and ends there, as for moments (``turn:5``).
# - The rows of an ancestor say how its turns ended. If it changed a variable after the fork point, before the next
#   turn, they do not tell what the fork began with: a leaf's last row may have been undone or replaced in between. Then
#   a mark takes the place of a row, unless the leaf has one of that turn and of before the fork point. It has the value
#   that the leaf's next row says was there before; without a next row nothing is known. The effects from the fork point
#   to the ancestor's next turn say which variables these are (``unsure``).
#
# ``line`` are the world and its ancestors, each with how far it counts; how far both projections are in it (what came
# after a log that they do not know whole is not told); its last turn; the turn under way where it ends; and the
# generation in which its last turn ends.
_OF_FORKS: Final = f"""
with line as materialized (
    select l.*, t.turn as last_turn, t.started_seq as last_started,
           max(t.turn) over (order by l.generation desc) as under_way,
           coalesce(max(case when t.turn is not null then l.generation end) over younger, min(l.generation) over ())
               as ends_in
    from (
        select a.*, c.reached,
               coalesce(bool_and(c.reached >= a.until_seq)
                        over (order by a.generation desc rows between unbounded preceding and 1 preceding), true)
                   as is_known
        from (
            select f.world_id as ancestor, 9223372036854775807 as until_seq, 0 as generation
            union all
            select ancestor, until_seq, generation from analytics.ancestry(f.world_id)
        ) a
        cross join lateral (
            select case when count(*) = 2 then min(c.global_seq) else 0 end as reached
            from public.projection_builds b
            join public.projection_cursors c on c.build = b.build and c.world_id = a.ancestor
            where b.projection in ('turns', 'state_variables') and b.status = 'live'
        ) c
    ) l
    left join lateral (
        select o.turn, o.started_seq from turns o
        where o.world_id = l.ancestor and o.started_seq <= least(l.until_seq, l.reached)
        order by o.turn desc limit 1
    ) t on true
    where l.is_known
    window younger as (order by l.generation rows between unbounded preceding and 1 preceding)
), unsure as materialized (
    select distinct l.generation, l.ancestor, l.under_way,
           case when e.kind = '{GLOBAL_STATE_CHANGED}' then '{GLOBAL}'
                else coalesce(analytics.readable(e.effect) #>> '{{payload,agent_id}}', e.source_id) end as agent,
           nullif(replace(replace(split_part(p.pointer, '/', 2), '~1', '/'), '~0', '~'), '') as variable
    from line l
    join public.effects e on e.world_id = l.ancestor and e.global_seq > l.until_seq
        and e.global_seq < coalesce(
            (select min(o.started_seq) from turns o where o.world_id = l.ancestor and o.started_seq > l.until_seq),
            9223372036854775807)
    left join lateral json_array_elements(
        case when json_typeof(analytics.readable(e.effect) #> '{{payload,patch}}') = 'array'
             then analytics.readable(e.effect) #> '{{payload,patch}}' end
    ) o on true
    cross join lateral (
        select o.value ->> 'path' as pointer
        union all
        select o.value ->> 'from' where o.value ->> 'from' is not null
    ) p
    where l.generation > 0
      and e.kind in ('{AGENT_STATE_CHANGED}', '{GLOBAL_STATE_CHANGED}', '{AGENT_ADDED}', '{AGENT_REMOVED}')
)
select s.agent, s.variable, s.path, s.generation, s.ancestor, s.since_turn, s.global_seq, s.sim_time, s.recorded_at,
       case when s.is_mark then s.next_previous else s.value end as value,
       case when s.is_mark then analytics.json_double(s.next_previous) else s.number end as number,
       case when not s.is_mark then s.text
            when json_typeof(s.next_previous) = 'string' then s.next_previous #>> '{{}}' end as text,
       case when s.is_mark then analytics.json_boolean(s.next_previous) else s.flag end as flag,
       t.turn as in_turn, t.generation as turn_generation
from (
    select r.*, lead(r.turn, 1, 9223372036854775807) over leaf - 1 as until, lead(r.previous) over leaf as next_previous
    from (
        select v.agent, v.path, v.variable, l.generation, l.ancestor, false as is_mark, v.turn, v.turn as since_turn,
               v.value, v.number, v.text, v.flag, v.removed, v.previous, v.global_seq, v.sim_time, v.recorded_at
        from line l
        join state_variables v on v.world_id = l.ancestor and v.global_seq <= l.until_seq
        union all
        select v.agent, v.path, v.variable, u.generation, u.ancestor, true, u.under_way, null, null, null, null, null,
               false, null, null, null, null
        from unsure u
        join line l on l.generation >= u.generation
        join state_variables v on v.world_id = l.ancestor and v.global_seq <= l.until_seq
            and v.agent = u.agent and v.variable = coalesce(u.variable, v.variable)
        group by v.agent, v.path, v.variable, u.generation, u.ancestor, u.under_way
        having not bool_or(l.generation = u.generation and v.turn = u.under_way)
    ) r
    window leaf as (partition by r.agent, r.path order by r.generation desc, r.is_mark, r.turn)
) s
cross join lateral (
    select o.turn, case when o.turn = l.last_turn then l.ends_in else l.generation end as generation
    from line l
    join turns o on o.world_id = l.ancestor and o.turn between s.turn and s.until and o.started_seq <= l.last_started
    offset 0
) t
where not s.removed and not (s.is_mark and s.next_previous is null)
"""

_SAYING_MORE: Final = MappingProxyType({"flag": "is_true", "removed": "is_removed", "sim_time": "sim_time_s"})
_BY_TURN_SAYS: Final = {
    "world_id": "The name of the world.",
    "experiment": "The experiment that the world belongs to; null for none.",
    "turn": "The turn at the end of which the variable had this value.",
    **{name: _COLUMNS[_PLACES[name]].comment for name in ("agent", "variable", "path")},
    "value": "The value: a number, a text, a bool, null, {} or [].",
    **{name: _COLUMNS[_PLACES[name]].comment for name in ("number", "text", "flag")},
    "since_turn": "The turn that left it so.",
    "global_seq": "The last effect of that turn that changed it.",
    **{name: _COLUMNS[_PLACES[name]].comment for name in ("sim_time", "recorded_at")},
}
_SHOWN_BY_TURN: Final = {name: _SAYING_MORE.get(name, name) for name in _BY_TURN_SAYS}
_SAID_BY_TURN: Final = MappingProxyType({_SHOWN_BY_TURN[name]: said for name, said in _BY_TURN_SAYS.items()})
_PUBLISHED_BY_TURN: Final = ", ".join(f"{name} as {said}" for name, said in _SHOWN_BY_TURN.items())

_MARKS: Final = {
    **INHERITED,
    "is_inherited": "Whether the value is of before the fork: set in an ancestor's log.",
    "turn_generation": "In whose log the turn ended: 0 for the world's own, 1 for its parent's, and so on.",
}
_SAID_WITH_FORKS: Final = MappingProxyType(
    {**_SAID_BY_TURN, "since_turn": "The turn that left it so; null where it is only known that it was so.", **_MARKS}
)
_BY_TURN_WITH_FORKS: Final = f"""
select {", ".join(_BY_TURN_SAYS)}, false as is_inherited, null::text as inherited_from, 0 as generation,
       0 as turn_generation
from state_variables_by_turn v where {NO_FORK.format("v")}
union all
select f.world_id, f.experiment, h.in_turn, h.agent, h.variable, h.path, h.value, h.number, h.text, h.flag,
       h.since_turn, h.global_seq, h.sim_time, h.recorded_at, h.generation > 0,
       case when h.generation > 0 then h.ancestor end, h.generation, h.turn_generation
from analytics.forks f
join public.worlds w on w.world_id = f.world_id and w.ruleset = 'simulation'
cross join lateral ({_OF_FORKS}) h
"""


class _World(WorldProjection):
    """The rows of the present turn, compared with the end of the turn before.

    ``_known`` are the entities as they were last compared: the fold replaces an entity, and never changes one.
    ``_before`` has, for each leaf that this turn has changed, the JSON text at the end of the turn before (None: it was
    missing); ``_stored`` are those of them that have rows.
    """

    def __init__(self, world_id: str, rows: Sequence[Row], fold: Fold) -> None:
        self._world_id = world_id
        self._fold = fold
        self._known = dict(fold.state.entities)
        self._turn: int = fold.state.metadata.get(TURN, 0)
        turn, agent, path, previous = (_PLACES[name] for name in ("turn", "agent", "path", "previous"))
        self._before: dict[tuple[str, str], str | None] = {
            (row[agent], row[path]): row[previous] for row in rows if row[turn] == self._turn
        }
        self._stored = set(self._before)
        self._rows: dict[_Key, Row] = {}
        self._gone: dict[_Key, None] = {}

    def apply(self, effect: Effect) -> None:
        touched = self._fold.apply(effect)
        state = self._fold.state
        turn = state.metadata[TURN]
        if turn != self._turn:
            self._turn = turn
            self._before = {}
            self._stored = set()
        ids: Iterable[str]
        if type(touched) is str:
            ids = (touched,)
        elif touched is None:
            ids = dict.fromkeys((*self._known, *state.entities))
        else:
            ids = touched
        for entity_id in ids:
            before, after = self._known.get(entity_id), state.entities.get(entity_id)
            if after is not before:
                self._compare(entity_id, before, after, effect)
                if after is None:
                    del self._known[entity_id]
                else:
                    self._known[entity_id] = after

    def _compare(self, agent: str, before: dict[str, Any] | None, after: dict[str, Any] | None, effect: Effect) -> None:
        when = effect["global_seq"], effect["sim_time"], moment(effect["wall_time"])
        for found in differences(before, after, but=None if agent == GLOBAL else _NAME):
            path, leaf = found.path, (agent, found.path)
            if leaf not in self._before:
                _check_size(agent, path)
                self._before[leaf] = _text(found.before)
            previous, text = self._before[leaf], _text(found.after)
            key = (agent, path, self._turn)
            if text == previous:
                # The same as at the end of the turn before: no row.
                self._rows.pop(key, None)
                if leaf in self._stored:
                    self._gone[key] = None
            else:
                self._gone.pop(key, None)
                typed = _typed(found.after)
                self._rows[key] = (
                    self._world_id,
                    self._turn,
                    agent,
                    found.variable,
                    path,
                    text,
                    *typed,
                    previous,
                    *when,
                )

    def take_changes(self) -> Changes:
        changes = Changes(list(self._rows.values()), [(self._world_id, *key) for key in self._gone])
        for agent, path, turn in self._rows:
            if turn == self._turn:
                self._stored.add((agent, path))
        for agent, path, turn in self._gone:
            if turn == self._turn:
                self._stored.discard((agent, path))
        self._rows, self._gone = {}, {}
        return changes


def _text(value: Any) -> str | None:
    return None if value is MISSING else state_text(value).decode()


def _typed(value: Any) -> tuple[float | None, str | None, bool | None, bool]:
    """Return a value as number, text and flag, and whether it is missing."""
    if type(value) is bool:
        return None, None, value, False
    if type(value) is float or type(value) is int:
        return float(value), None, None, False
    if type(value) is str:
        return None, value, None, False
    return None, None, None, value is MISSING


def _check_size(agent: str, path: str) -> None:
    if len(agent) + len(path) > MAX_KEY // 4:
        size = len(agent.encode()) + len(path.encode())
        if size > MAX_KEY:
            what = f"the name of agent {agent[:_SHOWN]!r} and the path {path[:_SHOWN]!r}… have {size} bytes together"
            raise ValueError(f"{what}; a row can have {MAX_KEY}")


class StateVariables(Projection):
    """One row for each leaf of each variable and each turn that changed it.

    A leaf is a number, a text, a bool or null, or an empty object or list. Its row has the value at the end of the
    turn; for the present turn, the present value. A change that was undone within a turn has no row. When an agent is
    removed, each of its leaves gets a row that says so. `turns` lists the turns; the view state_variables_by_turn has a
    row for each of them.
    """

    name = "state_variables"
    version = 1
    comment = "How the variables of simulations moved: one row for each value that a turn left other than before."
    columns = _COLUMNS
    key = ("world_id", "agent", "path", "turn")
    rulesets = frozenset({"simulation"})
    indexes = (("agent", "path", "world_id", "turn"), ("world_id", "turn"))
    published = _SAYING_MORE
    views = (
        View(
            "state_variables_by_turn",
            _BY_TURN,
            "The value of each variable in each turn, whether or not it changed then, with the world's experiment.",
            upon=("turns",),
        ),
        View(
            "state_variables_by_turn",
            f"select {_PUBLISHED_BY_TURN} from state_variables_by_turn v where {NO_FORK.format('v')}",
            "The value of each variable in each turn, whether or not it changed then. Forks are left out.",
            upon=("turns",),
            schema=ANALYTICS,
            columns=_SAID_BY_TURN,
        ),
        View(
            f"state_variables_by_turn{WITH_FORKS}",
            _BY_TURN_WITH_FORKS,
            "As state_variables_by_turn, with forks and their whole history.",
            upon=("turns",),
        ),
        View(
            f"state_variables_by_turn{WITH_FORKS}",
            f"select {_PUBLISHED_BY_TURN}, {', '.join(_MARKS)} from state_variables_by_turn{WITH_FORKS}",
            "As state_variables_by_turn, with forks and their whole history. What a fork began with is told without "
            "its place, or not at all, where its parent changed the variable once more in the turn that was under way.",
            upon=("turns",),
            schema=ANALYTICS,
            columns=_SAID_WITH_FORKS,
        ),
    )
    needs_rows = True
    newest_by = "turn"
    inherited_by = ("global_seq",)
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the variables' fold: the state, and the rows of the present turn."""
        return _World(world_id, rows, needed(fold))
