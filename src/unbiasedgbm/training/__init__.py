"""Boosting: one iteration reads top to bottom in booster, gradients, roles, histogram, splitting, grower."""
