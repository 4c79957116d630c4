"""``python -m worldledger_service.cli``: the command line where the console script is not on the PATH."""

from worldledger_service.cli.entry import main

main()
