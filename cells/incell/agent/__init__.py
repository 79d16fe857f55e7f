"""Programs of the agent container: first process, forwarder, reference harness. Nothing trusted lies here."""
