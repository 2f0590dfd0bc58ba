"""A change on its way: its phase, the gates before the next, who reads which shape, and the service that keeps all of it."""
