"""What a cell is: design, contract, evidence, recording. Pure: no Docker, no Prefect, no pandas."""
