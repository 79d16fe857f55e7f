"""Design: the study file, the matrix of cells, the frozen plan."""
