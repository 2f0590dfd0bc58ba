"""Breaking schema changes without a flag day: expand, dual write, migrate, contract."""
