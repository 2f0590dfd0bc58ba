"""What changes: two schemas, the mapping between their fields, and the steps from the one to the other."""
