-- The place of a moment, as worldledger.moments writes it. By steps: each asks one log for what an index finds. A kind of worlds
-- says in a view of its own, RULESET_units, what its units are; so this names none.
create or replace function analytics.place_at(world text, moment text) returns table (world_id text, global_seq bigint)
language plpgsql stable strict parallel safe rows 1
as $$
declare
    logs text[];  -- those of its history, the youngest first
    ends bigint[];  -- the last effect of each that is its history
    said constant text := moment;
    word text;
    rest text;
    seconds double precision;
    instant timestamptz;
    number bigint;
    rules text;
    kinds text[];
    member text;
    has_zero boolean;
    begun bigint;
    low bigint;
    high bigint;
    middle bigint;
    many bigint;
    is_before boolean;
begin
    select array_agg(l.name order by l.generation), array_agg(l.last_seq order by l.generation) into logs, ends
    from (
        select w.world_id as name, 0 as generation, w.head_seq as last_seq from analytics.worlds w where w.world_id = world
        union all
        select a.ancestor, a.generation, a.until_seq from analytics.ancestry(world) a
    ) l;
    if logs is null then
        return;
    end if;
    while starts_with(moment, 'parent:') loop
        if cardinality(logs) = 1 then
            raise exception 'world % is no fork: it has no parent', logs[1] using errcode = 'no_data_found';
        end if;
        logs := logs[2:];
        ends := ends[2:];
        moment := substr(moment, length('parent:') + 1);
    end loop;

    moment := case
        when moment = 'head' then 'seq:' || ends[1]
        when moment ~ '^[0-9]+$' then 'seq:' || moment
        when moment ~ '^[0-9]{4}-' then 'wall:' || moment
        else moment
    end;
    word := split_part(moment, ':', 1);
    rest := substr(moment, length(word) + 2);
    if word = 'sim' then
        seconds := case when rest ~ '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$' then rest end;
    elsif word = 'wall' then
        instant := case when rest ~ 'T.*(Z|[+-][0-9]{2}:?[0-9]{2})$' then analytics.json_time(to_json(rest)) end;
    elsif word ~ '^[a-z][a-z_]{0,63}$' then
        number := case when rest ~ '^[0-9]{1,18}$' then rest end;
    end if;
    if num_nonnulls(seconds, instant, number) = 0 then
        raise exception '% is no moment: give seq:N (or N), head, step:N or another unit, sim:SECONDS, a time with its offset, or parent:MOMENT', quote_literal(said)
            using errcode = 'invalid_parameter_value';
    end if;

    if word = 'seq' then
        if number not between 1 and ends[1] then
            if logs[1] <> world then
                raise exception 'seq % of % is not in the history of %: they share its effects up to seq %, the fork point',
                    number, logs[1], world, ends[1] using errcode = 'no_data_found';
            end if;
            raise exception 'world % has no seq %; its head is %', logs[1], number, ends[1] using errcode = 'no_data_found';
        end if;
        return query select logs[1], number;
        return;
    end if;

    if number is null then  -- times never go back in a log
        for nth in 1 .. cardinality(logs) loop
            low := 0;
            high := ends[nth];
            while low < high loop
                middle := (low + high + 1) / 2;
                select case when instant is null then e.sim_time_s <= seconds else e.recorded_at <= instant end into is_before
                from analytics.effects_with_forks e
                where e.world_id = logs[nth] and not e.is_inherited and e.global_seq = middle;
                if is_before is null then
                    raise exception 'effect % of world % has no time that can be read', middle, logs[nth]
                        using errcode = 'no_data_found';
                elsif is_before then
                    low := middle;
                else
                    high := middle - 1;
                end if;
            end loop;
            if low > 0 then
                return query select logs[nth], low;
                return;
            end if;
        end loop;
        raise exception 'world % has no effect at or before %', logs[1], said using errcode = 'no_data_found';
    end if;

    select w.ruleset into rules from analytics.worlds w where w.world_id = logs[1];
    if to_regclass(format('analytics.%I', rules || '_units')) is not null then
        execute format('select u.kinds, u.member, u.has_zero from analytics.%I u where u.unit = $1', rules || '_units')
            into kinds, member, has_zero using word;
    end if;
    if kinds is null and word = 'step' then  -- an effect that is not of a system kind, and the rest up to the next one
        low := 0;
        for nth in reverse cardinality(logs) .. 1 loop
            select count(*) into many
            from analytics.effects_with_forks e
            where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and not ({{of_system}});
            if number <= low + many then
                select e.global_seq into begun
                from analytics.effects_with_forks e
                where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and not ({{of_system}})
                order by e.global_seq offset number - low limit 1;
                return query select logs[nth], coalesce(begun - 1, ends[nth]);
                return;
            end if;
            low := low + many;
        end loop;
        raise exception 'world % has no step %; its last is %', logs[1], number, low using errcode = 'no_data_found';
    elsif kinds is null then
        raise exception 'world % has no % %; worlds of % have no such unit', logs[1], word, number, rules
            using errcode = 'no_data_found', hint = format('The view analytics.%I has those that there are.', rules || '_units');
    elsif member is null then
        raise exception 'the number of a % is no field of an effect: it cannot be asked for in SQL', word
            using errcode = 'invalid_parameter_value',
                  hint = format('worldledger state %s --at %s says at which seq it is.', world, said);
    end if;

    for nth in 1 .. cardinality(logs) loop
        select max(e.global_seq) into begun
        from analytics.effects_with_forks e
        where e.world_id = logs[nth] and not e.is_inherited and e.global_seq <= ends[nth] and e.kind = any (kinds)
          and e.payload ->> member = number::text;
        if begun is null and number = 0 and has_zero and nth = cardinality(logs) then
            begun := 0;
        end if;
        continue when begun is null;
        for later in reverse nth .. 1 loop  -- what is under way at a fork point goes on in the fork
            select min(e.global_seq) into middle
            from analytics.effects_with_forks e
            where e.world_id = logs[later] and not e.is_inherited and e.kind = any (kinds)
              and e.global_seq > begun and e.global_seq <= ends[later];
            if middle is not null or later = 1 then
                return query select logs[later], coalesce(middle - 1, ends[later]);
                return;
            end if;
            begun := 0;
        end loop;
    end loop;
    raise exception 'world % has no % %', logs[1], word, number using errcode = 'no_data_found';
end
$$;

-- The history of a world up to a moment. In SQL, so that PostgreSQL writes it into the query and reads no column that is not
-- asked for. Each world of the line is asked for its own effects alone, which the primary key finds up to a seq.
create or replace function analytics.history(
    world text, until_seq bigint default null, of_world text default null,
    until_sim_time_s double precision default null, until text default null
) returns table (
    place bigint, world_id text, inherited_from text, generation integer, global_seq bigint, kind text, source_id text,
    sim_time_s double precision, recorded_at timestamptz, payload json, checksum text
)
language sql stable parallel safe
as $$
    with line as (
        select world as name, 0 as generation, 9223372036854775807 as last_seq
        union all
        select a.ancestor, a.generation, a.until_seq from analytics.ancestry(world) a
    ), named as (
        select p.world_id as name, p.global_seq as last_seq from analytics.place_at(world, history.until) p
    ), cut as (
        select l.name, l.generation,
               case when l.generation > o.generation then l.last_seq
                    else least(l.last_seq, coalesce((select n.last_seq from named n), history.until_seq)) end as last_seq,
               coalesce((select sum(b.last_seq) from line b where b.generation > l.generation), 0)::bigint as before
        from line o
        join line l on l.generation >= o.generation
        where o.name = coalesce((select n.name from named n), of_world, world)
    )
    select c.before + e.global_seq, world, nullif(c.name, world), c.generation, e.global_seq, e.kind, e.source_id,
           e.sim_time_s, e.recorded_at, e.payload, e.checksum
    from cut c
    join analytics.effects_with_forks e on e.world_id = c.name and not e.is_inherited and e.global_seq <= c.last_seq
    where until_sim_time_s is null or e.sim_time_s <= until_sim_time_s
$$;

revoke all on function analytics.place_at(text,text), analytics.history(text,bigint,text,double precision,text) from public;
grant execute on function analytics.place_at(text,text), analytics.history(text,bigint,text,double precision,text) to worldledger_service, worldledger_reader, worldledger_guest;
comment on function analytics.place_at(text,text) is 'Where a moment (head, 12, step:3, turn:5, sim:2.5, parent:head …) of a world''s history is: in whose log, and its last effect.';
comment on function analytics.history(text,bigint,text,double precision,text) is 'The effects of a world and of before it in its ancestors, up to a moment, or a seq of the world, or of_world, and a sim_time; order by place.';
