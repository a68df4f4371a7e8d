"""Data that others wrote: limits, strict readers, and text that is safe to print.

Anyone who may write to a bucket decides what its files hold, so no reader trusts a size, a count,
a nesting or a name. The contract of every reader of foreign data:

- It reads whole files only through a store of `Stores`, which refuses files above `file_bytes`.
- It never allocates what a file claims, only what arrived, and inflates up to `inflated_bytes`.
- Numbers that become Arrow columns have 64 bits: `Long` and `Size` in documents, `parse_long` for
  digits in text.
- Every failure is a `FormatError` or a `StorageError` that names the file; `reading` turns
  any other exception into one. The root that needs the file is incomplete, and nothing else is.
"""
