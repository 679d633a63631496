"""Routes of the vector server, grouped as Qdrant's reference groups them."""
