"""Feeding a trainer: what makes a framework's arrays of batches, and hands them over ahead of use."""
