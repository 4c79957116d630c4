"""Read models: each a fold from effects to its own table. Pure: no I/O, no clock, no randomness.

What feeds them is the engine of the service (`worldledger_service.projecting`); imports point from here to
``worldledger`` only.
"""
