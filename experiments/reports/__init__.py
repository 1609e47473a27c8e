"""From rows of the store to tables and figures, one module a figure."""
