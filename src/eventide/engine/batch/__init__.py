"""One micro-batch: read, advance, settle, deliver."""
