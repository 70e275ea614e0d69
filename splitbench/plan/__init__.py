"""Recipe to cells: documents, components, what a recipe may hold, the papers' values and claims."""
