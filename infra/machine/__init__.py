"""What a fresh machine needs before `assay` can run: packages, engine, environment, base image."""
