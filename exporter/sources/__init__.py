"""The outside world becomes values. All the I/O and all the foreign exceptions live here and nowhere else.

One verb a source: ``read(...) -> Reading[T]``. Trouble outside never raises out of a source; our own mistakes do.
"""
