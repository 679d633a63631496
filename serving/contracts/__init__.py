"""Request and response bodies of the documented interfaces."""
