"""Prefect flows and the command line: the only place that knows both sides of the seal."""
