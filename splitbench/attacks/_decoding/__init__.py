"""From smashed data back to inputs."""
