"""Boosting: one iteration reads top to bottom in booster, gradients, roles, grower, histogram, splitting, leaves."""
