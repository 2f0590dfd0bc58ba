"""What the answers mean: time, watermarks, windows, lateness and panes, in plain Python with no other dependency."""
