"""Harness layers: the software of a real harness, built once from a lock file into a volume of its own.

Rules:
1. A layer holds what its program needs and its own interpreter; of the task's image it uses the kernel and `/bin/sh`.
2. Lock files name versions and digests, never an index; the machine's own package clients fetch.
3. A layer is mounted read-only at /assay/layer into agent containers of its harness, and into no other.
"""
