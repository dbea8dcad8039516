"""States that earlier versions took, and a test that this one restores them."""
