"""List a lake, then follow its roots down to every referenced file."""
