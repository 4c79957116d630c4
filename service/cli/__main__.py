"""``python -m service.cli``: the command line where the console script is not on the PATH."""

from service.cli.entry import main

main()
