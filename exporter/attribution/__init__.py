"""Who holds what, and who uses what. Pure: values in, values out; no I/O, no clock, no log."""
