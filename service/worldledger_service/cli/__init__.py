"""The command line: a file for each noun, put together in ``main.py``.

Data go to stdout, words and progress to stderr. Exit codes: 0 done, 1 found something wrong (tampered, refused), 2
could not run, 130 stopped by Ctrl-C. TamperedError is 1, every other SimulationError that reaches ``main.py`` is 2.
"""
