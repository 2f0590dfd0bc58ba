"""The rows themselves: either shape read as one, drift between the two, history filled in."""
