"""Tasks: the native task directory and its frozen form."""
