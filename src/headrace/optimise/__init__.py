"""Plans that run faster and give the same rows under the same marks."""
