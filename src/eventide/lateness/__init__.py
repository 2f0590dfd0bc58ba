"""Lateness as a number: what the scan's witness sees of a lane, and what a pipeline has measured of itself."""
