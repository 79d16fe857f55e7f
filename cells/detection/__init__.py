"""Detectors: pure judgements over the projected rows of a live prefix, for named hurdles.

The modules here import nothing but the standard library and each other: the whole package is what runs in the child
process, which has neither our other code nor anything installed.
"""
