"""Effects and views as Arrow: read from PostgreSQL by ADBC, streamed over HTTP, written as Parquet.

It needs the extra ``analytics``, so its modules are imported where they are first used, inside
`worldledger_service.arrow.pool.needed`:

- ``connections``: a few ADBC connections, used from threads, cancelled with their callers
- ``cutting``: from stored rows to the columns of the table of effects, a whole batch at a time
- ``reading``: the effects of chosen worlds, ascending and without gaps, in batches of bounded size
- ``ipc``: batches as the bytes of an Arrow IPC stream
- ``lake/``: a folder of Parquet files that grows with the logs
"""
