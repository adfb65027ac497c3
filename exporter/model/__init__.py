"""Nouns: frozen values that two or more rooms share.

No I/O, no clock, no log, and no import of any other room. Every field says its unit, its source and what its absence means.
"""
