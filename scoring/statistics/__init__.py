"""Statistics of finished cells: pure functions on numpy arrays.

Every random number comes from a generator that is passed in.
"""
