-- Waits for the lock of migrations/env.py: within one database only one at a time. Once readers may take no such locks
-- (readers.sql), the owner still may.
do $turn$
declare
    before constant text := current_setting('role');
begin
    perform pg_advisory_xact_lock(512919627634);
exception
    when insufficient_privilege then
        perform set_config('role', 'worldledger_owner', true);
        perform pg_advisory_xact_lock(512919627634);
        perform set_config('role', before, true);
end
$turn$;
