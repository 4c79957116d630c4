-- Roles belong to the cluster, not to one database: two databases may be migrated at the same moment, and each of them
-- may find the role absent, present, or coming. So every step looks first, and a step that lost a race (duplicate_object,
-- unique_violation, or "tuple concurrently updated", which is an internal_error) is fine. A user without CREATEROLE goes
-- on when an administrator has made the roles and granted them.
do $roles$
declare
    may_set constant text :=
        case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
    wanted record;
begin
    for wanted in
        select * from (values
            ('worldledger_owner', 'Worldledger: owns and migrates the schema; may not change history either.'),
            ('worldledger_service', 'Worldledger: what the service works as; adds to the log, moves heads.'),
            ('worldledger_reader', 'Worldledger: for people who ask; reads the schema analytics and nothing else.'),
            ('worldledger_guest', 'Worldledger: for queries by way of the service; reads the same as the reader.')
        ) as roles (name, comment)
    loop
        if to_regrole(wanted.name) is null then
            begin
                execute format('create role %I nologin', wanted.name);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise exception 'the role % is missing, and % may not create it', wanted.name, current_user
                        using errcode = 'insufficient_privilege',
                              hint = format('As an administrator: CREATE ROLE %I NOLOGIN; GRANT %I TO %I',
                                            wanted.name, wanted.name, current_user);
            end;
        end if;
        if not pg_has_role(current_user, wanted.name, may_set) then
            begin
                execute format('grant %I to current_user', wanted.name);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
        end if;
        if not pg_has_role(current_user, wanted.name, may_set) then
            raise exception 'the user % is no member of the role %', current_user, wanted.name
                using errcode = 'insufficient_privilege',
                      hint = format('As an administrator: GRANT %I TO %I', wanted.name, current_user);
        end if;
        if shobj_description(to_regrole(wanted.name), 'pg_authid') is distinct from wanted.comment then
            begin
                execute format('comment on role %I is %L', wanted.name, wanted.comment);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
        end if;
    end loop;
end
$roles$;

-- Settings of a role hold where somebody logs in as it, and for nobody who is only a member. What an administrator has set
-- stays. By the role itself, which needs no right over roles; the limit of connections does.
do $reader$
declare
    before constant text := current_setting('role');
    wanted record;
begin
    for wanted in
        select * from (values
            {{reader_settings}}
        ) as settings (name, value)
    loop
        if not exists (select from pg_db_role_setting, unnest(setconfig) as s (setting)
                       where setdatabase = 0 and setrole = 'worldledger_reader'::regrole
                         and starts_with(s.setting, wanted.name || '=')) then
            begin
                perform set_config('role', 'worldledger_reader', true);
                execute format('alter role worldledger_reader set %I to %L', wanted.name, wanted.value);
            exception
                when insufficient_privilege or unique_violation or internal_error then null;
            end;
            perform set_config('role', before, true);
        end if;
    end loop;
    if exists (select from pg_roles where rolname = 'worldledger_reader' and rolconnlimit = -1) then
        begin
            alter role worldledger_reader connection limit {{reader_sessions}};
        exception
            when insufficient_privilege or internal_error then null;
        end;
    end if;
end
$reader$;

-- The reader and the guest read nothing there, but what they read calls functions that stand there.
do $schema$
begin
    if not has_schema_privilege('worldledger_owner', 'public', 'create')
       or not has_schema_privilege('worldledger_owner', 'public', 'usage')
       or not has_schema_privilege('worldledger_service', 'public', 'usage')
       or not has_schema_privilege('worldledger_reader', 'public', 'usage')
       or not has_schema_privilege('worldledger_guest', 'public', 'usage') then
        grant create, usage on schema public to worldledger_owner;
        grant usage on schema public to worldledger_service, worldledger_reader, worldledger_guest;
    end if;
    if not has_schema_privilege('worldledger_owner', 'public', 'create') then
        raise exception 'the user % may not let worldledger_owner create tables in schema public', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Migrate as the owner of the database, or as an administrator: '
                         'GRANT CREATE, USAGE ON SCHEMA public TO worldledger_owner';
    end if;
end
$schema$;
