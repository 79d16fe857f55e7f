"""Recording: wire rows, and what is derived from them (trace, transcript, usage, state)."""
