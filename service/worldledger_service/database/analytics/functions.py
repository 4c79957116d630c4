r"""The functions of the schema ``analytics``.

What stands in a payload may be anything. A value that is not of a column's type is null there, and no value is an
error of the whole query. So each function looks before it casts, and none needs a handler for errors, with which no
query could run in parallel (PostgreSQL 15 has no ``pg_input_is_valid``). plpgsql, because a function in SQL would be
written into the query once for every use of its argument, and each use reads the effect's text again.

``noise`` is the formula of docs/reference/observation.md, so that what an agent was shown can be asked for in SQL.
"""

from __future__ import annotations

from typing import Final

# No search_path of its own, which would make each call several times as slow: what stands in pg_catalog comes first in
# any path, and everything else is qualified.
_FUNCTION: Final = """
create or replace function analytics.{head}
language plpgsql immutable strict parallel safe
as $$
{body}
$$
"""

_BIGINT: Final = """
begin
    if json_typeof(value) <> 'number' or value::text !~ '^-?[0-9]{1,18}$' then
        return null;
    end if;
    return value::text::bigint;
end
""".strip()

_DOUBLE: Final = """
declare
    size numeric;
begin
    if json_typeof(value) <> 'number' or length(value::text) > 300 then
        return null;
    elsif value::text ~ '[eE]' then
        if value::text !~ '^[-0-9.]{1,40}[eE][-+]?[0-9]{1,3}$' then
            return null;
        end if;
        size := abs(value::text::numeric);
        if size > 1.7976931348623157e308 or size < 5e-324 and size <> 0 then
            return null;
        end if;
    end if;
    return value::text::double precision;
end
""".strip()

_BOOLEAN: Final = """
begin
    return case when json_typeof(value) = 'boolean' then value::text = 'true' end;
end
""".strip()

# Of the years that every program can hold. A text without an offset is UTC.
_TIME: Final = r"""
declare
    parts text[];
    seconds double precision;
    month integer;
begin
    if json_typeof(value) = 'number' then
        seconds := analytics.json_double(value);
        return case when seconds >= -62135596800 and seconds < 253402300800 then to_timestamp(seconds) end;
    elsif json_typeof(value) <> 'string' then
        return null;
    end if;
    parts := regexp_match(
        value #>> '{}',
        '^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?)?(?:Z|([-+])(\d\d):?(\d\d)?)?$');
    month := parts[2]::integer;
    if parts is null or parts[1]::integer not between 2 and 9998 or month not between 1 and 12
       or parts[3]::integer not between 1 and (case
           when month in (4, 6, 9, 11) then 30
           when month <> 2 then 31
           when parts[1]::integer % 4 = 0 and (parts[1]::integer % 100 <> 0 or parts[1]::integer % 400 = 0) then 29
           else 28 end)
       or parts[4]::integer > 23 or parts[5]::integer > 59 or parts[6]::double precision >= 60
       or parts[8]::integer > 15 or parts[9]::integer > 59 then
        return null;
    end if;
    return format('%s-%s-%s %s:%s:%s%s%s:%s', parts[1], parts[2], parts[3],
                  coalesce(parts[4], '00'), coalesce(parts[5], '00'), coalesce(parts[6], '00'),
                  coalesce(parts[7], '+'), coalesce(parts[8], '00'), coalesce(parts[9], '00'))::timestamptz;
end
""".strip()

#: The digest as 16 big-endian numbers of 16 bits, added up in one expression: a loop takes three times as long.
_SUM: Final = " + ".join(f"{256 if place % 2 == 0 else 1} * get_byte(digest, {place})" for place in range(32)).replace(
    "1 * ", ""
)
_NOISE: Final = rf"""
declare
    digest bytea := sha256(convert_to(
        '[' || to_json(replace(world_uuid::text, '-', ''))::text || ',' || to_json(observer)::text || ','
        || to_json(target)::text || ',' || to_json(path)::text || ',' || turn || ']', 'UTF8'));
begin
    return ({_SUM} - 524280) * (0.8660254037844386::double precision / 65536);
end
""".strip()

_CALLERS: Final = "worldledger_service, worldledger_reader, worldledger_guest"

#: Each function's head, its body and what it says, those first that others call.
FUNCTIONS: Final[dict[str, tuple[str, str, str]]] = {
    "json_bigint(json)": (
        "json_bigint(value json) returns bigint",
        _BIGINT,
        "A JSON value as a whole number; null where it is anything else. Never raises.",
    ),
    "json_double(json)": (
        "json_double(value json) returns double precision",
        _DOUBLE,
        "A JSON value as a number; null where it is anything else. Never raises.",
    ),
    "json_boolean(json)": (
        "json_boolean(value json) returns boolean",
        _BOOLEAN,
        "A JSON value as true or false; null where it is anything else. Never raises.",
    ),
    "json_time(json)": (
        "json_time(value json) returns timestamptz",
        _TIME,
        "A JSON value as a moment: epoch seconds, or ISO 8601, UTC without an offset; else null. Never raises.",
    ),
    "noise(uuid,text,text,text,bigint)": (
        "noise(world_uuid uuid, observer text, target text, path text, turn bigint) returns double precision",
        _NOISE,
        "The draw g of one number in one turn, for the policy matrix: observed = value * (1.0 + noise * g).",
    ),
}


def statements() -> list[str]:
    """Return the statements that make the functions, say what they are, and let the roles call them."""
    made: list[str] = []
    for signature, (head, body, comment) in FUNCTIONS.items():
        made += [
            _FUNCTION.format(head=head, body=body),
            f"revoke all on function analytics.{signature} from public",
            f"grant execute on function analytics.{signature} to {_CALLERS}",
            f"comment on function analytics.{signature} is '{comment}'",
        ]
    return made
