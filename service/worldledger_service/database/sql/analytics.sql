-- The schema analytics: the service's, as the schema projections is, because the views over projections come and go with
-- the builds behind them. What stands here belongs to the owner of the log, so that the service can replace none of it.
set local role none;

-- Though it only reads, a query could fill the write-ahead log with messages; so nobody but a superuser may send any. Who does
-- not own PostgreSQL's functions cannot say so, and passes over it (docs/reference/analytics.md).
do $messages$
declare
    what regprocedure;
begin
    for what in
        select oid from pg_catalog.pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname = 'pg_logical_emit_message'
          and pg_has_role(proowner, 'usage')
    loop
        execute format('revoke execute on function %s from public', what);
    end loop;
end
$messages$;

-- By the user who migrates, then by the service's role.
do $analytics$
begin
    if to_regnamespace('analytics') is null then
        create schema analytics authorization worldledger_service;
    elsif not exists (select from pg_namespace
                      where nspname = 'analytics' and nspowner::regrole::text = 'worldledger_service') then
        raise exception 'the database has a schema analytics of somebody else'
            using errcode = 'duplicate_schema',
                  hint = 'Use another database, or rename that schema, or give it away: '
                         'ALTER SCHEMA analytics OWNER TO worldledger_service';
    end if;
exception
    when insufficient_privilege then
        raise exception 'the user % may not create the schema analytics', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'CREATE SCHEMA analytics AUTHORIZATION worldledger_service';
end
$analytics$;

set local role worldledger_service;
grant usage on schema analytics to worldledger_reader, worldledger_guest;
grant create, usage on schema analytics to worldledger_owner;
alter default privileges in schema analytics grant select on tables to worldledger_reader, worldledger_guest;
comment on schema analytics is 'Version {{version}}. What is in the log and what follows from it, for questions: typed columns, names that explain themselves.';
set local role worldledger_owner;

-- What stands in the log was written by the write gate, or past it: PostgreSQL stores a text with an escape of a zero
-- character, or of half a surrogate pair, as JSON, and every operator that reads it raises. In SQL, so that it is written into
-- the query. A look for one byte is all that it costs for most effects (measured: the cheapest that there is); one for two bytes
-- comes next. The last one takes away whole pairs, and every other escape, among them that of a backslash.
create or replace function analytics.readable(value json) returns json
language sql immutable parallel safe
return case
    when strpos(value::text, '\') = 0 then value
    when value::text not like '%\\u%' then value
    when value::text !~ '\\u(0000|[dD][89a-fA-F])' then value
    when regexp_replace(value::text, '\\([^u]|u[dD][89abAB]..\\u[dD][c-fC-F])', '', 'g') !~ '\\u(0000|[dD][89a-fA-F])' then value
end;

-- Functions. What stands in a payload may be anything. A value that is not of a column's type is null there, and no value is
-- an error of the whole query. So each function looks before it casts, and none needs a handler for errors, with which no
-- query could run in parallel (PostgreSQL 15 has no pg_input_is_valid). plpgsql, because a function in SQL would be written
-- into the query once for every use of its argument, and each use reads the effect's text again. No search_path of their
-- own, which would make each call several times as slow: what stands in pg_catalog comes first in any path, and everything
-- else is qualified.
create or replace function analytics.json_bigint(value json) returns bigint
language plpgsql immutable strict parallel safe
as $$
begin
    if json_typeof(value) <> 'number' or value::text !~ '^-?[0-9]{1,18}$' then
        return null;
    end if;
    return value::text::bigint;
end
$$;

create or replace function analytics.json_double(value json) returns double precision
language plpgsql immutable strict parallel safe
as $$
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
$$;

create or replace function analytics.json_boolean(value json) returns boolean
language plpgsql immutable strict parallel safe
as $$
begin
    return case when json_typeof(value) = 'boolean' then value::text = 'true' end;
end
$$;

-- Of the years that every program can hold. A text without an offset is UTC.
create or replace function analytics.json_time(value json) returns timestamptz
language plpgsql immutable strict parallel safe
as $$
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
        analytics.readable(value) #>> '{}',
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
$$;

-- The formula of docs/reference/observation.md, so that what an agent was shown can be asked for in SQL. The digest as 16
-- big-endian numbers of 16 bits, added up in one expression: a loop takes three times as long.
create or replace function analytics.noise(world_uuid uuid, observer text, target text, path text, turn bigint) returns double precision
language plpgsql immutable strict parallel safe
as $$
declare
    digest bytea := sha256(convert_to(
        '[' || to_json(replace(world_uuid::text, '-', ''))::text || ',' || to_json(observer)::text || ','
        || to_json(target)::text || ',' || to_json(path)::text || ',' || turn || ']', 'UTF8'));
begin
    return (256 * get_byte(digest, 0) + get_byte(digest, 1) + 256 * get_byte(digest, 2) + get_byte(digest, 3) + 256 * get_byte(digest, 4) + get_byte(digest, 5) + 256 * get_byte(digest, 6) + get_byte(digest, 7) + 256 * get_byte(digest, 8) + get_byte(digest, 9) + 256 * get_byte(digest, 10) + get_byte(digest, 11) + 256 * get_byte(digest, 12) + get_byte(digest, 13) + 256 * get_byte(digest, 14) + get_byte(digest, 15) + 256 * get_byte(digest, 16) + get_byte(digest, 17) + 256 * get_byte(digest, 18) + get_byte(digest, 19) + 256 * get_byte(digest, 20) + get_byte(digest, 21) + 256 * get_byte(digest, 22) + get_byte(digest, 23) + 256 * get_byte(digest, 24) + get_byte(digest, 25) + 256 * get_byte(digest, 26) + get_byte(digest, 27) + 256 * get_byte(digest, 28) + get_byte(digest, 29) + 256 * get_byte(digest, 30) + get_byte(digest, 31) - 524280) * (0.8660254037844386::double precision / 65536);
end
$$;

-- By steps, because a recursive view would be worked out for all worlds before the one that is asked for. A world of the
-- parent's name that is another world has nothing to do with the fork. It reads a view that its callers may read.
create or replace function analytics.ancestry(world text) returns table (ancestor text, until_seq bigint, generation integer)
language plpgsql stable strict parallel safe rows 1
as $$
declare
    step record;
begin
    generation := 0;
    loop
        select f.parent, f.parent_seq into step
        from analytics.forks f
        join analytics.worlds w on w.world_id = f.parent and replace(w.world_uuid::text, '-', '') = f.parent_uuid
        where f.world_id = world;
        exit when not found or generation >= 100;
        world := step.parent;
        ancestor := step.parent;
        until_seq := step.parent_seq;
        generation := generation + 1;
        return next;
    end loop;
end
$$;

revoke all on function
    analytics.readable(json), analytics.json_bigint(json), analytics.json_double(json), analytics.json_boolean(json),
    analytics.json_time(json), analytics.noise(uuid,text,text,text,bigint),
    analytics.ancestry(text)
    from public;

grant execute on function
    analytics.readable(json), analytics.json_bigint(json), analytics.json_double(json), analytics.json_boolean(json),
    analytics.json_time(json), analytics.noise(uuid,text,text,text,bigint),
    analytics.ancestry(text)
    to worldledger_service, worldledger_reader, worldledger_guest;

comment on function analytics.readable(json) is 'A JSON value; null where PostgreSQL cannot read it: it has \u0000, or half a surrogate pair. Never raises.';
comment on function analytics.json_bigint(json) is 'A JSON value as a whole number; null where it is anything else. Never raises.';
comment on function analytics.json_double(json) is 'A JSON value as a number; null where it is anything else. Never raises.';
comment on function analytics.json_boolean(json) is 'A JSON value as true or false; null where it is anything else. Never raises.';
comment on function analytics.json_time(json) is 'A JSON value as a moment: epoch seconds, or ISO 8601, UTC without an offset; else null. Never raises.';
comment on function analytics.noise(uuid,text,text,text,bigint) is 'The draw g of one number in one turn, for the policy matrix: observed = value * (1.0 + noise * g).';
comment on function analytics.ancestry(text) is 'The worlds that a fork goes on from, its parent first, each with the last of its effects that is the fork''s history, too.';
