"""The live side of a cell: sandbox, gateway, harnesses, detectors, replay and branching; ends at the seal."""
