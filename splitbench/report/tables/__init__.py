"""Tables from the store, in every format."""
