"""Where panes go, one file for each kind behind one protocol."""
