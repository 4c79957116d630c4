"""What makes a schema right again that is not as this program makes it: what `db upgrade` does, and what people do.

An upgrade makes again what is missing or changed as far as no row is lost. What was added is left to people, and so is
what would take long or rows with it: for that there is SQL to run (`by_hand`). Both come from the lines of the
catalogue, for these are PostgreSQL's own definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from worldledger_service.database.catalogue import expected

#: Tables whose rows are history, which nothing makes again.
_HISTORY: Final = frozenset({"worlds", "heads", "effects"})
#: What is left of a line where another one is about the same thing.
_WITH_ANOTHER: Final = ""
_ANEW: Final = "-- then `worldledger db upgrade`, which makes it anew, empty"
_BACKUP: Final = "-- {} is gone with what it held: restore a backup"
_PRIVILEGE: Final = re.compile(r"(?P<who>.+) may (?P<lacks>not )?(?P<what>[A-Z]+)(?P<option> and grant it)?\Z")
_ON: Final = re.compile(r"privilege on (?P<kind>relation|column|function|type|schema) (?P<name>.+)\Z")
_RELATION: Final = re.compile(
    r"(?P<kind>\w+), owner (?P<owner>[^,]+), (?P<persistence>permanent|not permanent), options \{(?P<options>.*)\}, "
    r"row security (?P<security>\w), replica identity (?P<identity>\w)\Z"
)
_COLUMN: Final = re.compile(r"(?P<type>.+?)(?P<null> not null)?(?: default (?P<default>.+))?\Z")
_COMMENT: Final = re.compile(
    r"comment on (?:(?:table|view|composite type) (?P<part>column|constraint)|(?:composite )?(?P<kind>\w+)) "
    r"(?P<name>.+)\Z"
)
_FINDING: Final = re.compile(
    r"(?P<what>.+?): (?P<verdict>missing|unexpected|should be|but is): (?P<how>.*)\Z", re.DOTALL
)
#: A name that needs no quotes, and one of a relation as PostgreSQL writes it.
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")
_PLACE: Final = re.compile(r'(?:(?:[a-z_][a-z0-9_]*|"(?:[^"]|"")+")(?:\.(?!\Z)|\Z)){1,2}\Z')
#: The same in a finding: a view's.
_VIEW: Final = r'(?P<name>(?:\w+|"(?:[^"]|"")+")\.(?:\w+|"(?:[^"]|"")+"))'
#: A literal or a quoted name in a statement.
_QUOTED: Final = re.compile(r"""\bE'(?:[^']|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_KINDS: Final = {"S": "sequence", "m": "materialized view", "p": "table", "f": "foreign table"}


class Step(NamedTuple):
    """A statement that makes a difference right, and whether `db upgrade` does that; without one other parts of it do.

    What begins with ``--`` is advice, and no statement.
    """

    sql: str
    is_upgrades: bool


_UPGRADE: Final = Step("", True)


class Difference(NamedTuple):
    """What differs, how it is, and how it should be; None: it is not there."""

    what: str
    was: str | None
    wanted: str | None


def differences(found: Iterable[str], wanted: Iterable[str]) -> Iterator[Difference]:
    """Yield the differences of two catalogues, in order."""
    there, needed = set(found), set(wanted)
    extra, missing = sorted(there - needed), sorted(needed - there)
    was = {what: how for what, how in map(_parts, extra) if _is_one(what)}
    seen = {what for what, _ in map(_parts, missing) if _is_one(what)}
    for what, how in map(_parts, missing):
        yield Difference(what, was.get(what), how)
    for what, how in map(_parts, extra):
        if what not in seen:
            yield Difference(what, how, None)


def _parts(line: str) -> tuple[str, str]:
    what, _, how = line.partition(": ")
    return what, how


def _is_one(what: str) -> bool:
    """Return whether there is one line at most about something."""
    return not what.startswith(("privilege ", "default privileges ", "membership", "inheritance"))


@cache
def tables() -> frozenset[str]:
    """Return the program's tables."""
    return frozenset(
        what.removeprefix("relation ")
        for what, how in map(_parts, expected())
        if what.startswith("relation ") and how.startswith("table,")
    )


@cache
def _constraints() -> frozenset[str]:
    return frozenset(
        what.removeprefix("constraint ").partition(" on ")[0]
        for what, _ in map(_parts, expected())
        if what.startswith("constraint ")
    )


def missing_tables(found: Collection[str]) -> list[str]:
    """Return the tables that are missing and can be made again, empty."""
    there = {_parts(line)[0] for line in found}
    return sorted(table for table in tables() - _HISTORY if f"relation {table}" not in there)


# -- what an upgrade does ------------------------------------------------------------------------------------


#: What is made right before the program's own statements, which name it; the rest is after them.
_FIRST: Final = ("constraint ", "index ", "relation ", "column ", "schema ", "type ")


def mends(found: Iterable[str], *, first: bool) -> list[str]:
    """Return the statements by which an upgrade makes differences right, before the program's own or after them."""
    return [
        each.sql
        for difference in differences(found, expected())
        if difference.what.startswith(_FIRST) == first and (each := step(difference)).is_upgrades and each.sql
    ]


def step(difference: Difference) -> Step:
    """Return what makes a difference right."""
    what, was, wanted = difference
    kind, _, name = what.partition(" ")
    match kind:
        case "relation":
            return _relation(name, was, wanted)
        case "column":
            return _column(*name.rpartition(".")[::2], was, wanted)
        case "constraint" | "index" | "trigger" | "rule" | "policy":
            return _of_table(kind, name, was, wanted)
        case "view":
            return Step(_WITH_ANOTHER, False) if wanted is None else _UPGRADE
        case "function" | "aggregate" | "operator" | "type" | "cast" | "event" if wanted is None:
            return Step(f"drop {'routine' if kind in {'function', 'aggregate'} else kind} {name}", False)
        case "type" | "schema" if was is not None and wanted is not None:
            return Step(f"alter {kind} {name} owner to {wanted.rpartition(' ')[2]}", True)
        case "owner":  # of PLACE
            return Step(f"alter table {name.removeprefix('of ')} owner to {wanted}", False)
        case "comment":
            return _comment(what, wanted)
        case "privilege":
            return _privilege(what, was, wanted)
        case "function" | "type" | "schema":
            return _UPGRADE
    return _of_roles(what, was, wanted)


def _quoted(name: str) -> str:
    """Return the name of a part as SQL has it: whoever made it may have called it anything."""
    return name if _NAME.match(name) else '"' + name.replace('"', '""') + '"'


def _of_table(kind: str, name: str, was: str | None, wanted: str | None) -> Step:
    part, _, table = name.rpartition(" on ")
    part = _quoted(part)
    if not _PLACE.match(name if kind == "index" else table):
        return Step(f"-- drop the {kind} {name}", False)
    if kind == "constraint":
        drop, add = f"drop constraint {part}", f"add constraint {part} {wanted}"
        changes = [drop] if wanted is None else [add] if was is None else [drop, add]
        return Step(f"alter table {table} {', '.join(changes)}", wanted is not None)
    if kind != "index":
        return Step(f"drop {kind} {part} on {table}", False) if wanted is None else _UPGRADE
    if wanted is None:
        return Step(f"drop index {name}", False)
    if name in _constraints():
        return _UPGRADE  # it is made with its constraint
    return Step(wanted if was is None else f"drop index {name}; {wanted}", True)


def _relation(name: str, was: str | None, wanted: str | None) -> Step:
    kind = (was or wanted or "").partition(",")[0]
    if wanted is None or (was is not None and kind != wanted.partition(",")[0]):
        # The sequence of a column goes with its table.
        drop = f"drop {_dropped(kind)}{' if exists' if kind == 'S' else ''} {name}"
        return Step(drop if wanted is None else f"{drop}; {_ANEW}", False)
    if was is None:
        return Step(_BACKUP.format(f"the table {name}"), False) if name in _HISTORY else _UPGRADE
    before, after = _RELATION.match(was), _RELATION.match(wanted)
    if kind == "view" and before and after and before["owner"] != after["owner"]:
        # That of a kind of worlds is not an upgrade's to drop.
        is_own = any(each.startswith(f"relation {name}: ") for each in expected())
        return Step(f"alter view {name} owner to {after['owner']}", is_own)
    if kind != "table" or before is None or after is None:
        return _UPGRADE
    changes = []
    if before["owner"] != after["owner"]:
        changes.append(f"owner to {after['owner']}")
    if before["security"] != after["security"]:
        changes.append("disable row level security")
    if before["identity"] != after["identity"]:
        changes.append("replica identity default")
    if before["options"] != after["options"]:
        named = ", ".join(option.partition("=")[0] for option in before["options"].split(",") if option)
        changes += [f"reset ({named})"] if named else []
        changes += [f"set ({after['options']})"] if after["options"] else []
    is_quick = before["persistence"] == after["persistence"]
    changes += [] if is_quick else ["set logged"]
    return Step(f"alter table {name} {', '.join(changes)}", is_quick)


def _column(relation: str, name: str, was: str | None, wanted: str | None) -> Step:
    if relation not in tables():
        return _UPGRADE  # a view's, or of a table that goes as a whole
    name = _quoted(name)
    if wanted is None:
        return Step(f"alter table {relation} drop column {name}", False)
    if was is None:
        if relation in _HISTORY:
            return Step(_BACKUP.format(f"the column {name} of {relation}"), False)
        return Step(f"drop table {relation} cascade; {_ANEW}", False)
    before, after = _COLUMN.match(was), _COLUMN.match(wanted)
    if before is None or after is None or before["type"] != after["type"]:
        return Step(f"alter table {relation} alter column {name} type {after['type'] if after else wanted}", False)
    changes = []
    if before["null"] != after["null"]:
        changes.append(f"alter column {name} {'set' if after['null'] else 'drop'} not null")
    if before["default"] != after["default"]:
        default = f"set default {after['default']}" if after["default"] else "drop default"
        changes.append(f"alter column {name} {default}")
    return Step(f"alter table {relation} {', '.join(changes)}", True)


def _comment(what: str, wanted: str | None) -> Step:
    if (found := _COMMENT.match(what)) is None:
        return Step(f"-- {what}: set it by COMMENT ON", False)
    kind = found["part"] or found["kind"]
    text = "null" if wanted is None else "'" + wanted.replace("'", "''") + "'"
    return Step(f"comment on {kind} {found['name']} is {text}", wanted is not None)


def _privilege(what: str, was: str | None, wanted: str | None) -> Step:
    on, said = _ON.match(what), _PRIVILEGE.match(was or wanted or "")
    if on is None or said is None:
        return _UPGRADE
    who = "public" if said["who"] == "everybody" else said["who"]
    kind, name, privilege = on["kind"], on["name"], said["what"]
    if kind == "column":
        name, _, column = name.rpartition(".")
        privilege = f"{privilege} ({_quoted(column)})"
    place = f"{kind} {name}" if kind in {"function", "type", "schema"} else name
    if wanted is None:
        return Step(f"revoke {privilege} on {place} from {who}", False)
    return Step(f"grant {privilege} on {place} to {who}{' with grant option' if said['option'] else ''}", True)


def _of_roles(what: str, was: str | None, wanted: str | None) -> Step:
    kind, _, name = what.partition(" ")
    how = was or wanted or ""
    if kind == "inheritance":
        child, _, parent = how.partition(" from ")
        if _PLACE.match(child) and _PLACE.match(parent):
            return Step(f"alter table {child} no inherit {parent}", False)
        return Step(f"-- end the inheritance: {how}", False)
    if kind == "membership":
        role, _, group = how.partition(" in ")
        group, _, by = group.partition(", granted by ")
        return Step(f"revoke {group} from {role}{f' granted by {by}' if by else ''}", False)
    if kind == "role":
        if wanted is None or was is None:
            return Step(f"create role {name}; -- then `worldledger db upgrade`", False)
        given = dict(each.rsplit(" ", 1) for each in wanted.split(", "))
        return Step(
            f"alter role {name} " + " ".join(("" if on == "t" else "no") + each for each, on in given.items()), False
        )
    if kind == "setting":
        done = f"reset {how.partition('=')[0]}" if wanted is None else f"set {wanted.replace('=', ' = ', 1)}"
        return Step(f"alter role {name.removeprefix('of role ')} {done}", False)
    if kind == "default" and (said := _PRIVILEGE.match(how)) is not None:
        # default privileges of ROLE[ in schema SCHEMA] on KIND: GRANTEE may [not ]PRIVILEGE
        of, _, on = name.removeprefix("privileges of ").rpartition(" on ")
        who = "public" if said["who"] == "everybody" else said["who"]
        on = "tables" if on == "relations" else on
        begin = f"alter default privileges for role {of}"
        if wanted is None and not said["lacks"]:
            return Step(f"{begin} revoke {said['what']} on {on} from {who}", False)
        return Step(f"{begin} grant {said['what']} on {on} to {who}", wanted is not None)
    return Step(f"-- {what}: no statement is known", False)


# -- what people do ------------------------------------------------------------------------------------------


#: Findings of `check` about views over projections that an upgrade makes right.
_MENDED: Final = re.compile(
    r"view \S+: (?:is missing|is not the view|is no table that keeps|cannot be compared: no build is live)"
)
_MOVED: Final = re.compile(r"moved (?P<place>.+\.(?P<name>\w+)): belongs in the schema public")
_STRANGER: Final = re.compile(rf"view {_VIEW}: unexpected, or of a projection")
#: Other findings of `check`, each with what makes it right.
_OTHERS: Final = (
    (_STRANGER, "drop view {name}"),
    (_MOVED, "alter table {place} set schema public"),
    (
        re.compile(r"view (?P<name>[\w.]+): is not the view that this program makes: it is a (?P<kind>.+)"),
        "drop {kind} {name}; -- or rename it; then `worldledger db upgrade`",
    ),
    (
        re.compile(r"view (?P<name>[\w.]+): cannot be compared: the live build has version"),
        "-- {name}: run `worldledger project --once` by the newest program",
    ),
    (
        re.compile(r"mark (?P<name>.+): by the table prefixes", re.DOTALL),
        "delete from public.prefixes where world_id = {name}",
    ),
    (
        re.compile(r"setting .+?: is .*: (?P<sql>(?:alter|set role) .+)\Z"),
        "{sql}",
    ),
)


def by_hand(findings: Iterable[str]) -> dict[str, str]:
    """Return the findings of `check` that `db upgrade` leaves, each with what makes it right.

    That is SQL to run as a superuser, or as the owner of what it names, before the upgrade; empty where another
    finding's does it, or where the finding says itself what to run.
    """
    lines = list(findings)
    read = [(line, match) for line in lines if (match := _FINDING.match(line)) is not None]
    was = {each["what"]: each["how"] for _, each in read if each["verdict"] == "but is"}
    wanted = {each["what"]: each["how"] for _, each in read if each["verdict"] == "should be"}
    added = {each["what"]: each["how"] for _, each in read if each["verdict"] == "unexpected"}
    added |= {f"view {view['name']}": "" for line in lines if (view := _STRANGER.match(line)) is not None}
    missing = {each["what"]: each["how"] for _, each in read if each["verdict"] == "missing"}
    replaced = {what: how for what, how in wanted.items() if _kind(what, how) != _kind(what, was.get(what, ""))}
    renamed = _renamed(added, missing | replaced)
    gone = missing.keys() - renamed.values()
    moved = {f"relation {each['name']}" for line in lines if (each := _MOVED.match(line)) is not None}
    again = replaced.keys() | moved | {what for what in renamed.values() if what.startswith("relation ")}
    with_it = re.compile("|".join(rf"(?<![\w.]){re.escape(what.partition(' ')[2])}(?!\w)" for what in renamed) or "$^")
    children = {each["how"].partition(" from ")[0] for _, each in read if each["what"] == "inheritance"}
    left: dict[str, str] = {}
    is_lost = False
    for line, each in read:
        what, verdict, how = each["what"], each["verdict"], each["how"]
        if what in renamed:
            left[line] = _rename(what, renamed[what], was.get(renamed[what]))
            continue
        if what in renamed.values() or what in moved:
            left[line] = _WITH_ANOTHER
            continue
        if verdict == "but is":
            difference = Difference(what, how, wanted.get(what))
        elif verdict == "should be":
            difference = Difference(what, was.get(what), how)
        else:
            difference = Difference(what, how, None) if verdict == "unexpected" else Difference(what, None, how)
        needed = step(difference)
        goes_with = (
            verdict == "unexpected" and (_goes_with(what, how, added) or with_it.search(what) is not None)
        ) or _goes_with(what, "", again)
        if needed.is_upgrades and not goes_with:
            continue
        is_lost = is_lost or (verdict == "missing" and not goes_with and what.startswith(("relation ", "column ")))
        sql = needed.sql if verdict != "unexpected" else _kept(what, gone, added, children) or needed.sql
        left[line] = _WITH_ANOTHER if goes_with or verdict == "should be" else sql
    if is_lost:  # what is made upon it is not made before
        left |= {line: _WITH_ANOTHER for line, each in read if each["verdict"] != "unexpected" and line not in left}
    for line in lines:
        if _FINDING.match(line) is not None:
            continue
        told = [how.format(**said.groupdict()) for pattern, how in _OTHERS if (said := pattern.match(line))]
        if told or _MENDED.match(line) is None:
            left[line] = told[0] if told else _WITH_ANOTHER
    return left


#: What statements drop first, and last: views before what they read, what calls functions before these.
_ORDER: Final = (
    "set role none; ",
    "drop event trigger ",
    "drop rule ",
    "drop trigger ",
    "drop materialized view ",
    "drop view ",
    "",
    "drop table ",
    "drop sequence ",
    "drop cast ",
    "drop operator ",
    "drop routine ",
    "drop type ",
)
#: Of which several are dropped in one statement, whatever order they depend on each other in.
_TOGETHER: Final = ("drop view ", "drop materialized view ", "drop table ", "drop routine ")
_IS_ALONE: Final = re.compile(r"(?:set role none; )?[^;-]+\Z")


def statements(left: Iterable[str]) -> list[str]:
    """Return what makes findings right, as `by_hand` returns it, in an order in which it can be run."""
    groups: dict[str, list[str]] = {begin: [] for begin in _ORDER}
    for sql in dict.fromkeys(left):
        begin = next((each for each in _ORDER if each and sql.startswith(each) and _IS_ALONE.match(sql)), "")
        if sql:
            groups[begin].append(sql)
    for begin in _TOGETHER:
        if groups[begin]:
            groups[begin] = [begin + ", ".join(sql.removeprefix(begin) for sql in groups[begin])]
    ordered = [sql for group in groups.values() for sql in group]
    return [runnable(sql if "-- " in sql else f"{sql};") for sql in ordered]


# -- what has another name ------------------------------------------------------------------------------------

#: What may have another name, and the statement that gives it its own back; {0} is what it is a part of.
_RENAMES: Final = {
    "table": "alter table {1} rename to {2}",
    "view": "alter view {1} rename to {2}",
    "type": "alter type {1} rename to {2}",
    "function": "alter routine {1} rename to {2}",
    "index": "alter index {1} rename to {2}",
    "column": "alter table {0} rename column {1} to {2}",
    "constraint": "alter table {0} rename constraint {1} to {2}",
    "trigger": "alter trigger {1} on {0} rename to {2}",
}


def _renamed(added: dict[str, str], missing: dict[str, str]) -> dict[str, str]:
    """Return what was added and is what is missing by another name, each with the name that it should have.

    A relation is known by its columns, which are lost with it: its name is given back even where something else has
    been put in its place.
    """
    found: dict[str, str] = {}
    columns, wanted = _columns(added), _wanted_columns()
    for what, how in missing.items():
        if what.startswith("relation "):
            same = [
                other
                for other, how_other in added.items()
                if other.startswith("relation ")
                and _kind(other, how_other) == _kind(what, how)
                and _schema(other) == _schema(what)
                and columns.get(other[9:]) == wanted.get(what[9:])
            ]
            found |= {_best(same, added): what} if same else {}
    for what, how in missing.items():
        if (kind := what.partition(" ")[0]) in {"column", "constraint", "index", "trigger", "function"}:
            same = [
                other
                for other, how_other in added.items()
                if other.startswith(f"{kind} ")
                and _part(other)[0] == _part(what)[0]
                and (how_other == how or how_other.replace(f" {_named(other)} ", f" {_named(what)} ", 1) == how)
            ]
            alike = [other for other in missing if _part(other)[0] == _part(what)[0] and missing[other] == how]
            if len(same) == 1 and len(alike) == 1:
                found[same[0]] = what
    # The index of a constraint is renamed with it.
    own = {_named(what) for what in found if what.startswith("constraint ")}
    return {what: name for what, name in found.items() if what.removeprefix("index ") not in own}


def _kind(what: str, how: str) -> str:
    """Return the kind of a relation (table, view, type), or of another thing."""
    kind = what.partition(" ")[0]
    return how.partition(",")[0] if kind == "relation" else kind


def _schema(what: str) -> str:
    return what.partition(" ")[2].rpartition(".")[0]


def _columns(lines: dict[str, str]) -> dict[str, set[tuple[str, str]]]:
    """Return the columns of each relation, with their types."""
    found: dict[str, set[tuple[str, str]]] = {}
    for what, how in lines.items():
        if what.startswith("column "):
            relation, _, name = what.removeprefix("column ").rpartition(".")
            found.setdefault(relation, set()).add((name, how))
    return found


@cache
def _wanted_columns() -> dict[str, set[tuple[str, str]]]:
    return _columns(dict(map(_parts, expected())))


def _best(relations: list[str], added: dict[str, str]) -> str:
    """Return the relation of which most parts are known, such as constraints and triggers: a copy has none."""
    return max(relations, key=lambda each: sum(what.endswith(f" on {each[9:]}") for what in added))


def _part(what: str) -> tuple[str, str]:
    """Return what something is a part of, or its arguments: all but its name; and its name."""
    kind, _, name = what.partition(" ")
    if kind == "column":
        return name.rpartition(".")[0], name.rpartition(".")[2]
    if kind == "function":
        begin, bracket, arguments = name.partition("(")
        schema, dot, own = begin.rpartition(".")
        return f"{schema}{dot}{bracket}{arguments}", own
    if kind == "index":
        return "", name
    return name.rpartition(" on ")[2], name.rpartition(" on ")[0]


def _named(what: str) -> str:
    """Return the name of a part as its definition has it."""
    name = _part(what)[1]
    return name if what.startswith(("function ", "index ")) else _quoted(name)


def _rename(what: str, own: str, in_its_place: str | None) -> str:
    """Return the statements that give something its name back; what stands in its place goes."""
    kind, _, name = what.partition(" ")
    if kind == "relation":
        place = own.removeprefix("relation ")
        kind = _kind(own, dict(map(_parts, expected()))[own])
        drop = "" if in_its_place is None else f"drop {_dropped(in_its_place)} {place}; "
        return drop + _RENAMES[kind].format("", name, place.rpartition(".")[2])
    whole, _ = _part(what)
    return _RENAMES[kind].format(whole, name if kind == "function" else _named(what), _part(own)[1])


def _dropped(how: str) -> str:
    kind = how.partition(",")[0]
    return _KINDS.get(kind, kind)


def _kept(what: str, gone: Collection[str], added: dict[str, str], children: Collection[str]) -> str | None:
    """Return advice where what was added may be history: then nothing that loses it is said.

    ``children`` are the tables that inherit from others.
    """
    kind, _, name = what.partition(" ")
    table = name.rpartition(".")[0]
    lost = [each.rpartition(".")[2] for each in sorted(gone) if each.startswith(f"column {table}.")]
    if kind == "column" and table in _HISTORY and lost:
        return f"-- the column {name} may be one that is missing ({', '.join(lost)}) by another name: rename it"
    if kind == "relation" and added[what].startswith("table,") and name not in children:
        names = {column for column, _ in _columns(added).get(name, set())}
        for table in sorted(_HISTORY):
            if {column for column, _ in _wanted_columns()[table]} <= names:
                return (
                    f"-- {name} has the columns of {table}: drop or rename one of them, when you know which the log is"
                )
    return None


def runnable(sql: str) -> str:
    """Return the same statement with escapes, in its literals and names, for characters that cannot be seen.

    It can be copied from a terminal, where messages have escapes in their place that mean nothing to PostgreSQL.
    """
    return _QUOTED.sub(_escaped, sql)


def _escaped(quoted: re.Match[str]) -> str:
    text = quoted[0]
    if text.isprintable():
        return text
    is_name, has_escapes = text.startswith('"'), text.startswith("E")
    begin, short, long = ("U&", r"\{:04x}", r"\+{:06x}") if is_name else ("E", r"\u{:04x}", r"\U{:08x}")
    text = text[1:] if has_escapes else text.replace("\\", r"\\")
    return begin + "".join(
        each if each.isprintable() else (short if each <= "\uffff" else long).format(ord(each)) for each in text
    )


#: Kinds of lines about parts of relations, and what is said of these.
_PARTS: Final = frozenset(
    {"column", "comment", "constraint", "index", "policy", "privilege", "rule", "trigger", "view"}
)


def _goes_with(what: str, how: str, added: Collection[str]) -> bool:
    """Return whether something that was added is dropped with another thing that was."""
    kind, _, name = what.partition(" ")
    if kind == "index" and any(each.startswith("constraint ") and _named(each) == name for each in added):
        return True
    said = {"comment", "privilege"}
    whole = tuple(f" {each.partition(' ')[2]}" for each in added if each.partition(" ")[0] not in said)
    if kind in said and what.endswith(whole):
        return True
    relations = [each.removeprefix("relation ") for each in added if each.startswith("relation ")]
    if kind == "inheritance":
        return how.partition(" from ")[0].removeprefix("public.") in relations
    return kind in _PARTS and any(
        re.search(rf"(?<![\w.]){re.escape(each)}(?!\w)", f"{what.partition(' ')[2]} {how}".replace("public.", ""))
        for each in relations
    )
