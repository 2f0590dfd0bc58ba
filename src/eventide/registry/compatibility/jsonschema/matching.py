"""The largest matching between two sides: as many pairs as possible, no member in two of them."""

from __future__ import annotations

from collections.abc import Iterable

Edge = tuple[int, int]


def largest_matching(left_size: int, edges: Iterable[Edge]) -> list[Edge]:
    """The pairs of a largest matching among the edges, each from a left to a right member.

    >>> largest_matching(2, [(0, 0), (0, 1), (1, 0)])
    [(0, 1), (1, 0)]
    """
    neighbours: dict[int, list[int]] = {}
    for left, right in edges:
        neighbours.setdefault(left, []).append(right)
    partner: dict[int, int] = {}
    for left in range(left_size):
        if left in neighbours:
            _augment(left, neighbours, partner)
    return sorted((left, right) for right, left in partner.items())


def _augment(start: int, neighbours: dict[int, list[int]], partner: dict[int, int]) -> None:
    """Find a free right member by way of others that can move over, breadth first, and move them."""
    came_from: dict[int, int] = {}
    waiting = [start]
    for left in waiting:
        for right in neighbours[left]:
            if right in came_from:
                continue
            came_from[right] = left
            if right not in partner:
                _move(right, start, came_from, partner)
                return
            waiting.append(partner[right])


def _move(right: int, start: int, came_from: dict[int, int], partner: dict[int, int]) -> None:
    held = {left: taken for taken, left in partner.items()}
    while True:
        left = came_from[right]
        freed = held.get(left)
        partner[right] = left
        if left == start or freed is None:
            return
        right = freed
