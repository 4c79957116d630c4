-- A stranger's query. SET ROLE alone is no wall: a SELECT can call set_config('role', 'none', …), or hide that in
-- query_to_xml. Inside of a SECURITY DEFINER function PostgreSQL refuses to change role and session user, whatever is called
-- from there. So open_query opens the query as a cursor and fetch_query reads on from it, both as the guest; a cursor that
-- was opened there must not be read elsewhere, because what it calls is called by whoever reads.
--
-- They belong to the guest and not to the reader: the owner of a function may alter it, and whoever could log in as that owner
-- could make it SECURITY INVOKER. Only who may CREATE in a schema can own something there: for this moment.
set local role worldledger_service;
grant create on schema analytics to worldledger_guest;
set local role worldledger_guest;

create or replace function analytics.open_query(query text) returns void
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
declare
    asked refcursor := '{{cursor}}';
begin
    if current_setting('transaction_read_only') <> 'on' then
        raise exception 'a query is run in a read-only transaction' using errcode = 'read_only_sql_transaction';
    end if;
    open asked no scroll for execute query;
end
$$;

revoke all on function analytics.open_query(text) from public;
grant execute on function analytics.open_query(text) to worldledger_service, worldledger_reader;
comment on function analytics.open_query(text) is 'Opens a query as the guest, in a read-only transaction; read on by fetch_query.';

create or replace function analytics.fetch_query(most bigint) returns setof record
language plpgsql security definer
set search_path = analytics, pg_temp
as $$
begin
    return query execute format('fetch forward %s from {{cursor}}', most);
end
$$;

revoke all on function analytics.fetch_query(bigint) from public;
grant execute on function analytics.fetch_query(bigint) to worldledger_service, worldledger_reader;
comment on function analytics.fetch_query(bigint) is 'The next rows of the query that open_query opened, at most so many.';
set local role worldledger_service;
revoke create on schema analytics from worldledger_guest;
set local role worldledger_owner;
