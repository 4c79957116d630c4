-- What readers may do beyond reading is taken away. By whoever upgrades; what that user may not do stays as it is. What is
-- right already is not touched.
do $readers$
declare
    what regprocedure;
    other name;
begin
    if has_database_privilege('worldledger_reader', current_database(), 'temporary') then
        begin
            execute format('grant temporary on database %I to worldledger_owner, worldledger_service',
                           current_database());
            execute format('revoke temporary on database %I from public', current_database());
        exception
            when insufficient_privilege or internal_error then null;
        end;
    end if;
    -- What is revoked here still stands in the server's other databases. The embedded server's are nobody else's.
    for other in {{embedded_others}} loop
        begin
            execute format('revoke connect on database %I from public', other);
        exception
            when insufficient_privilege or internal_error then null;
        end;
    end loop;
    for what in
        select oid from pg_catalog.pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname in ({{functions}})
          and pg_has_role(proowner, 'usage') and has_function_privilege('worldledger_reader', oid, 'execute')
    loop
        if what = 'pg_advisory_xact_lock(bigint)'::regprocedure then
            execute format('grant execute on function %s to worldledger_owner', what);  -- for the migrations
        end if;
        execute format('revoke execute on function %s from public', what);
    end loop;
end
$readers$;
