"""What several topologies share: batches, taking turns, speaking in unison, and weights on the wire."""
