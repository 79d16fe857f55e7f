"""Other tools' files as rows of the cells table, and ours as files that other tools read; one module a format."""
