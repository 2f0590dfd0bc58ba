"""What registries lack: owners, naming rules, an audit log, diffs, and who still reads what."""
