"""What it costs at the edge: MACs, memory, bytes, seconds and joules."""
