"""Model files: one JSON document, checked before anything is made of it."""
