"""The sample company, its simulated sources, and the demo. Nothing else may import it but commands."""
