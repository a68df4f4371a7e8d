"""Drive a service: each operation of the command line, carried out through the HTTP API."""
