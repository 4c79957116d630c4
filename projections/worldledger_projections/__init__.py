"""Read models: each a fold from effects to its own table, and the engine that feeds them.

They read the log through `worldledger.protocols.LogReader` and are handed their database; imports point from here to
``worldledger`` only.
"""
