"""The report of a study: one self-contained HTML page and its Markdown form, made from rows and facts alone.

Rules:
1. The same evidence gives the same bytes: no clock, no randomness but the plan's seed, no path of a machine.
2. Every word of a cell, a task or a user is escaped where it enters the page; the page loads nothing from anywhere.
3. A number carries its uncertainty and leads to its cells; no data is said in words and never drawn as 0.
4. Colours are never the only sign: positions, words and counts say the same.
"""
