"""The command line: parse options, call the library, print results."""
