"""Live detectors: the child process they run in, what holds it, the controller that acts on its decisions."""
