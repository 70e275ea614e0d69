"""An attacker that a client trains for itself, to learn against."""
