"""The order of spectral patches, read off the symmetry of a real image's spectrum or off its magnitudes."""
