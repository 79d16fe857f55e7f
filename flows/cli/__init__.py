"""The command line. One module a command; nothing heavy is imported before a command needs it."""
