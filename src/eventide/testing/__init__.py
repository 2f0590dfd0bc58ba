"""What tests and experiments need: real systems on this machine, and known streams."""
