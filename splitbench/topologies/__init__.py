"""One file per topology: the programs of its parties."""
