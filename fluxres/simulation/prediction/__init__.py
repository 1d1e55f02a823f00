"""Predicted run times: predictors, correctors, and how good predictions were."""
