"""The words everything speaks: split, wire, party, threat, view, the interfaces, registry, errors."""
