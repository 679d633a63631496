"""Templates, style sheets and scripts of the pages, and how they are rendered and served. What a page shows is read by its route."""
