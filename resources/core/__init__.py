"""Types and rules without I/O: what every other package may import, and what imports none of them."""
