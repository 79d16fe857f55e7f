"""Programs that run inside containers: standard library only, mounted read-only; agent side and trusted side apart."""
