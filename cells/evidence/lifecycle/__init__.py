"""The life cycle of evidence: archive, export, restore, supersede, withdraw, label, fork, purge, and the registry
across roots."""
