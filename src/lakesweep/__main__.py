"""`python -m lakesweep` is the command `lakesweep`."""

from lakesweep.cli.main import main

main()
