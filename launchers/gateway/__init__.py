"""The gateway: a host-side process through which a container without network reaches a model, and its record."""
