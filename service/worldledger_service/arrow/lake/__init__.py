"""A lake: a folder of Parquet files that holds the logs of worlds and the views upon them, and grows with the logs.

    DIR/manifest.json                                          what is in it, and how far each world has come
    DIR/effects/experiment=E/world=W/part-FIRST-LAST.parquet   the effects of one world, once and for all
    DIR/VIEW/part-N.parquet                                    a view of the schema ``analytics``

- ``manifest``: what the manifest says
- ``folder``: the folder with its lock, and how new files come into it, all together
- ``files``: one Parquet file, row group by row group
- ``effects``: the files of the effects, and what their folders are named
- ``views``: those of the views
- ``exporting``: an export from beginning to end
"""
