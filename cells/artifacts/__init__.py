"""The artifact contract: every saved file's writer, readiness and permitted readers."""
