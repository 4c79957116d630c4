"""A lake: a folder of Parquet files with the logs of worlds and the views over them; it grows with the logs.

    DIR/manifest.json                                          its content, and how far each world has come
    DIR/effects/experiment=E/world=W/part-FIRST-LAST.parquet   the effects of one world, once and for all
    DIR/VIEW/part-N.parquet                                    a view of the schema ``analytics``

- ``manifest``: the content of the manifest
- ``folder``: the folder with its lock, and the publication of new files, all together
- ``files``: one Parquet file, row group by row group
- ``effects``: the files of the effects, and the names of their folders
- ``views``: those of the views
- ``exporting``: an export from beginning to end
"""
