"""Audit: from the evidence alone, who could have read what, and when.

Nothing that a run said about itself is believed where it can be made again: seals are rehashed, the trace is derived
from the wire, every prefix is cut and every decision made once more.
"""
