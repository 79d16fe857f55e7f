"""Evidence: digests, durable files, manifests, publishing, the ledger."""
