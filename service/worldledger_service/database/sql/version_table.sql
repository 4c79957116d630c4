-- The table that Alembic makes.
revoke all on alembic_version from public;
grant select on alembic_version to worldledger_service;
comment on table alembic_version is 'Which version of the schema this database has (kept by Alembic).';
comment on column alembic_version.version_num is 'The revision that `worldledger db upgrade` reached last.';
comment on constraint alembic_version_pkc on alembic_version is 'The name that Alembic gives its key.';
comment on index alembic_version_pkc is 'The index of the primary key.';
