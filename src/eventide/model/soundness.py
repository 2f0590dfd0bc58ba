"""Whether a graph means anything: what contradicts itself is refused where it is written, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.errors import DefinitionError
from eventide.model.aggregate import ADDITIVE, BY_ARRIVAL
from eventide.model.graph import HOWS, INNER, Aggregation, Between, Graph, Join, Kind, Node, Reading, Results, Rows, reads
from eventide.model.policy import DISCARDING
from eventide.model.time import LONGEST, show_duration
from eventide.model.view import BOUNDS
from eventide.model.window import Session


def check(graph: Graph) -> None:
    """Refuse a graph that contradicts itself."""
    _names(graph)
    for node in graph.nodes:
        _no_cycle(graph, node, ())
    _one_input(graph)
    for node in graph.nodes:
        if isinstance(node, Rows):
            _span(node.dedupe_within or 0, f"{node.name!r}: dedupe(within=…)")
        elif isinstance(node, Join):
            _join(graph, node)
        elif isinstance(node, Aggregation):
            _aggregation(graph, node)
        else:
            _results(graph, node)
    for reading in graph.outputs:
        _reading(graph, reading)


def columns(graph: Graph, node: Node) -> tuple[str, ...]:
    """The columns that a reader of a node sees."""
    if isinstance(node, Rows):
        return tuple(name for name, _ in node.columns)
    if isinstance(node, Join):
        return tuple(name for name, _ in joined_columns(graph, node))
    if isinstance(node, Aggregation):
        return (*node.keys, *BOUNDS, *(name for name, _ in node.aggregates))
    below = _kind(graph, node.of, Aggregation, f"results {node.name!r}")
    shown = node.view.names(below.keys, [name for name, _ in below.aggregates], f"results {node.name!r}")
    return (*below.keys, *BOUNDS, *shown)


def joined_columns(graph: Graph, join: Join) -> list[tuple[str, tuple[int, str]]]:
    """Each column of a pair, with the side (0, 1) and the column there that it shows; a shared key shows the left's."""
    sides = [columns(graph, graph.node(name)) for name in (join.left, join.right)]
    found = [(key, (0, key)) for key in join.keys]
    for side, names in enumerate(sides):
        found += [(join.prefix[side] + name, (side, name)) for name in names if name not in join.keys]
    return found


def _names(graph: Graph) -> None:
    names = [*(node.name for node in graph.nodes), *(reading.output.name for reading in graph.outputs)]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"two things in one pipeline are called {name!r}; give each its own name.")
    for reading in graph.outputs:
        graph.node(reading.of)


def _no_cycle(graph: Graph, node: Node, path: tuple[str, ...]) -> None:
    if node.name in path:
        raise DefinitionError(
            f"{' reads '.join([*path[path.index(node.name) :], node.name])}: a cycle, which would wait for itself. "
            "Let one of them read the stream, or another aggregation."
        )
    for name in reads(node):
        _no_cycle(graph, graph.node(name), (*path, node.name))


def _one_input(graph: Graph) -> None:
    """One stream, or one join of two: then there is one W, and no answer depends on what else stands in the pipeline."""
    streams = graph.all_of(Rows)
    read = {name for join in graph.all_of(Join) for name in (join.left, join.right)}
    joins = graph.all_of(Join)
    if len(joins) > 1 or (read and {rows.name for rows in streams} != read) or (not read and len(streams) != 1):
        raise DefinitionError(
            f"the pipeline reads {', '.join([*(s.name for s in streams), *(j.name for j in joins)])}, which have no one watermark. "
            "Everything in a pipeline reads one stream, or one join of two; make another pipeline for the rest."
        )
    for name in read:
        _kind(graph, name, Rows, "a join")
    for node in graph.all_of(Aggregation):
        if read and isinstance(graph.node(node.of), Rows):
            raise DefinitionError(
                f"aggregation {node.name!r} reads {node.of!r}, one side of a join, whose watermark is held by the other side. "
                "Make another pipeline for it."
            )
    everything = [index for rows in streams for index in rows.sources]
    if sorted(everything) != list(range(len(graph.sources))):
        raise DefinitionError(f"the streams read the sources {everything}, but each of {len(graph.sources)} must be read once.")


def _span(span: int, what: str) -> None:
    if not -LONGEST <= span <= LONGEST:
        raise DefinitionError(f"{what} is {show_duration(span)}; the longest span is {show_duration(LONGEST)}.")


def _kind(graph: Graph, name: str, kind: type[Kind], what: str) -> Kind:
    node = graph.node(name)
    if not isinstance(node, kind):
        raise DefinitionError(f"{what} reads {name!r}, which is {type(node).__name__}; it can read {kind.__name__} only.")
    return node


def _known(names: Iterable[str], there: tuple[str, ...], what: str) -> None:
    for name in names:
        if name not in there:
            raise DefinitionError(f"{what}: there is no column {name!r}. The columns are {', '.join(there)}.")


def _aggregation(graph: Graph, node: Aggregation) -> None:
    what, source = f"aggregation {node.name!r}", graph.node(node.of)
    if isinstance(source, Aggregation):
        raise DefinitionError(f"{what} reads {node.of!r} itself; say how late its results may come: {node.of}.results(late=…).")
    if isinstance(source, Join) and source.how != INNER:
        raise DefinitionError(
            f"{what} reads the {source.how} join {source.name!r}, whose null rows can be withdrawn. Windows go over inner joins only."
        )
    if isinstance(source, Results):
        _over_results(node, what)
    there = columns(graph, source)
    _known(node.keys, there, f"{what}: by")
    for name, aggregate in node.aggregates:
        _known(aggregate.columns, there, f"{what}: agg({name}=…)")
        if name in (*node.keys, *BOUNDS):
            raise DefinitionError(f"{what}: agg({name}=…): every result already has {name!r}; give it another name.")
    total, over = 0, node
    while True:
        total += over.window.gap if isinstance(over.window, Session) else over.window.size
        below = graph.node(over.of)
        if not isinstance(below, Results):
            break
        over = _kind(graph, below.of, Aggregation, f"results {below.name!r}")
    _span(total, f"{what}: the sum of its windows and of those below it")


def _over_results(node: Aggregation, what: str) -> None:
    if isinstance(node.window, Session):
        raise DefinitionError(
            f"{what}: session windows over results would split when a result is withdrawn. Use tumbling(…) or sliding(…)."
        )
    for key in node.keys:
        if key in BOUNDS:
            raise DefinitionError(
                f"{what}: by={key!r}: its results have a {key!r} of their own. Give the other one another name first: "
                f'.select(of="{key}", …).window(…, by="of").'
            )
    for name, aggregate in node.aggregates:
        if aggregate.kind in BY_ARRIVAL:
            raise DefinitionError(
                f"{what}: agg({name}=…): a result does not arrive, so none is the first or last to. "
                'Use first(…) or last(…) by="event_time".'
            )


def _results(graph: Graph, node: Results) -> None:
    _span(node.allowed, f"results {node.name!r}: late=…")
    columns(graph, node)


def _reading(graph: Graph, reading: Reading) -> None:
    output, what, node = reading.output, f"output {reading.output.name!r}", graph.node(reading.of)
    _span(output.allowed, f"{what}: late=…")
    if not isinstance(node, Aggregation):
        if isinstance(node, Results) or output.view.steps or output.accumulation == DISCARDING:
            raise DefinitionError(
                f"{what} reads {node.name!r}, which is {type(node).__name__}; views and discarding are for aggregations."
            )
        return
    output.view.names(node.keys, [name for name, _ in node.aggregates], what)
    if output.accumulation != DISCARDING:
        return
    if output.view.steps:
        raise DefinitionError(
            f"{what}: a view looks at totals, and a discarding output never states one. Use accumulate(…) or retract(…)."
        )
    source = graph.node(node.of)
    if isinstance(source, Results) and source.allowed:
        raise DefinitionError(
            f"{what}: the results of {source.of!r} can change for {show_duration(source.allowed)}, and a delta that was handed on cannot. "
            "Use accumulate(…), or read the results with late=drop()."
        )
    for name, aggregate in node.aggregates:
        if aggregate.kind not in ADDITIVE:
            raise DefinitionError(
                f"{what}: deltas of {aggregate.kind} ({name!r}) do not add up, so no reader could put them together. "
                f"A discarding output may carry {', '.join(sorted(ADDITIVE))}."
            )


def _join(graph: Graph, join: Join) -> None:
    what = f"join {join.name!r}"
    if join.how not in HOWS:
        raise DefinitionError(f"{what}: how={join.how!r}; use one of {', '.join(HOWS)}.")
    if not join.on:
        raise DefinitionError(f"{what}: on=() would pair every row with every other; name the columns that must be equal.")
    if isinstance(join.within, Between):
        if join.within.lo > join.within.hi:
            raise DefinitionError(
                f"{what}: within=({show_duration(join.within.lo)}, {show_duration(join.within.hi)}) holds nothing; "
                f"the first may not be above the second. Write them the other way round."
            )
        for bound in (join.within.lo, join.within.hi):
            _span(bound, f"{what}: within=…")
    elif join.within.slide != join.within.size:
        raise DefinitionError(f"{what}: within={join.within}: rows share several sliding windows. Use tumbling(…) or (lo, hi).")
    else:
        _span(join.within.size, f"{what}: within=…")
    _span(join.allowed, f"{what}: late=…")
    _join_columns(graph, join, what)


def _join_columns(graph: Graph, join: Join, what: str) -> None:
    sides = [dict(_kind(graph, name, Rows, what).columns) for name in (join.left, join.right)]
    for pair in join.on:
        for side, (name, there) in enumerate(zip(pair, sides, strict=True)):
            _known((name,), tuple(there), f"{what}: on, {('left', 'right')[side]} side")
        one, other = (there[name] for name, there in zip(pair, sides, strict=True))
        if one and other and one.lower() != other.lower():
            raise DefinitionError(
                f"{what}: on: {pair[0]!r} is {one} on the left, {pair[1]!r} is {other} on the right, so none would be equal. "
                "Cast one of them in a transform."
            )
    names = [name for name, _ in joined_columns(graph, join)]
    for name in names:
        if names.count(name) > 1:
            used = (join.left, join.right) if join.left != join.right else ("left", "right")
            first, second = (f"{word}_" for word in used)
            raise DefinitionError(
                f"{what}: both sides have a column {name!r}. "
                f"Write prefix=({first!r}, {second!r}) to call them {first + name!r} and {second + name!r}."
            )
