"""Route handlers: they check arguments, call one function, and shape its result."""
