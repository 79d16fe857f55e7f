"""The post-run side: collect, gate, verify, score, tables, statistics and reports."""
