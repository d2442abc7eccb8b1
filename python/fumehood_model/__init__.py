"""Scripts of `fumehood model`: each is run by itself, with the standard library alone."""
