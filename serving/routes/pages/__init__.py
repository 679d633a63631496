"""The pages for people. A page reads what it shows through the same functions as the HTTP interface, with the access of its session."""
