"""What we use of `lxml`, a native module without types."""
