"""What people read at a glance: names made harmless, spans of time and sizes in their largest unit."""
