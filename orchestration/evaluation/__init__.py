"""Search quality: on test collections with judgements, and on the company's own questions."""
