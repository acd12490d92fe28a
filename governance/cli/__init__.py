"""The command line: the top layer of the whole tree."""

from governance.cli.entry import main

__all__ = ["main"]
