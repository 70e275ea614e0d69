"""Prepare, train, mount an attack, score: what turns a cell into a row."""
