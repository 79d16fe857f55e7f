"""Set-up of a machine, images, benchmarks and decision records: nothing here is part of the installed product."""
