"""One file per architecture, with the places it can be cut."""
