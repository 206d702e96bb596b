"""Which rows of a query's result can a changed source row touch? Worked out bottom-up, clause by clause.

Each clause has a rule that says what becomes of the maps of a :class:`~icefloe.planner.relation.Relation`:

- a table maps each column to itself; WHERE and a plain column keep the map, an expression of mapped columns is mapped;
- GROUP BY keeps what is made of the grouping expressions, a window what is made of every PARTITION BY;
- UNION, INTERSECT, EXCEPT and DISTINCT keep the map, branch by branch;
- an inner join keeps both sides' maps, and an equality carries a value over to the other side. A row of the optional side of
  an outer join touches the rows that it is joined to, so only what the equalities carry over stays. So with EXISTS, IN and
  correlated subqueries;
- LIMIT, ROLLUP, an aggregate without GROUP BY: any row may change, nothing stays mapped.

What is not listed here is not understood, and is told (:class:`~icefloe.planner.relation.UnclearError`), never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from icefloe.planner import rules
from icefloe.planner.functions import is_generator
from icefloe.planner.inputs import Column
from icefloe.planner.query import Query, TableName
from icefloe.planner.relation import (
    Maps,
    Relation,
    RelationColumn,
    UnclearError,
    around,
    local,
    merged,
    place_of,
    shifted,
)

_SELECT_WORDS = """
    with_ expressions from_ joins laterals where group having windows qualify distinct order sort cluster distribute limit offset
    fetch hint
"""
_SELECT_PARTS = frozenset(_SELECT_WORDS.split())
_JOINS = {"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One reading of a table by the query. A WITH clause that is used twice reads its tables twice."""

    id: int
    table: TableName


@dataclass(frozen=True)
class Influence:
    relation: Relation
    occurrences: tuple[Occurrence, ...]

    def of(self, names: frozenset[str]) -> tuple[Occurrence, ...]:
        return tuple(occurrence for occurrence in self.occurrences if occurrence.table.name in names)


def analyse(query: Query, columns: Mapping[str, Sequence[Column]]) -> Influence:
    """``columns`` has the schema of every table that the query names. Raises :class:`UnclearError`."""
    analyser = _Analyser(query, columns)
    relation = analyser.query(query.tree, {}, None)
    return Influence(relation, tuple(analyser.occurrences))


@dataclass(frozen=True)
class _Projection:
    name: str
    value: exp.Expr
    type: str | None = None


class _Analyser:
    def __init__(self, query: Query, columns: Mapping[str, Sequence[Column]]) -> None:
        self._by_start = {table.start: table for table in query.tables}
        self._columns = columns
        self.occurrences: list[Occurrence] = []

    def query(self, node: exp.Expr, ctes: Mapping[str, Callable[[], Relation]], outer: Relation | None) -> Relation:
        node = node.unnest() if isinstance(node, exp.Paren) else node
        clause = node.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                raise UnclearError("WITH RECURSIVE")
            ctes = dict(ctes)
            for cte in clause.expressions:
                known = dict(ctes)
                ctes[cte.alias.lower()] = self._cte(cte, known)
        if isinstance(node, exp.Select):
            relation = _Select(self, node, ctes, outer).relation()
        elif isinstance(node, exp.SetOperation):
            relation = self._set_operation(node, ctes, outer)
        elif isinstance(node, exp.Subquery):
            inner = self.query(node.this, ctes, outer)
            relation = rules.named(inner, node.args.get("alias"))
        else:
            raise UnclearError(f"{node.key.upper()} is not understood here")
        if any(node.args.get(name) for name in ("limit", "offset", "fetch")):
            relation = rules.anything(relation)
        return relation

    def _cte(self, cte: exp.CTE, ctes: Mapping[str, Callable[[], Relation]]) -> Callable[[], Relation]:
        return lambda: rules.named(self.query(cte.this, ctes, None), cte.args.get("alias"))

    def _set_operation(
        self, node: exp.SetOperation, ctes: Mapping[str, Callable[[], Relation]], outer: Relation | None
    ) -> Relation:
        if node.args.get("by_name") or node.args.get("side") or node.args.get("kind"):
            raise UnclearError("UNION BY NAME")
        left, right = self.query(node.this, ctes, outer), self.query(node.expression, ctes, outer)
        if len(left.columns) != len(right.columns):
            raise UnclearError("the two sides of a UNION have different numbers of columns")
        # Where the sides differ in type, Spark converts: the value in the result is another one then.
        same = [a.type is not None and a.type == b.type for a, b in zip(left.columns, right.columns, strict=True)]
        places = tuple(
            RelationColumn(None, a.name, a.type if fits else None) for a, fits in zip(left.columns, same, strict=True)
        )
        maps = {
            occurrence_id: {index: value for index, value in columns.items() if same[index]}
            for occurrence_id, columns in merged(left.maps, right.maps).items()
        }
        everything = left.occurrences | right.occurrences
        all_rows = isinstance(node, exp.Union) and not node.args.get("distinct")
        linear = left.linear | right.linear
        is_union = isinstance(node, exp.Union)
        return Relation(
            places,
            maps,
            linear if all_rows else frozenset(),
            (left.grows | right.grows if all_rows else linear) if is_union else frozenset(),
            frozenset(),
            left.tangled | right.tangled,
            merged(left.outer, right.outer),
            (*left.unions, *right.unions, (everything, left.occurrences), (everything, right.occurrences)),
            frozenset(range(len(places))) if not all_rows and node.args.get("distinct", True) else None,
        )

    def table(self, node: exp.Table, ctes: Mapping[str, Callable[[], Relation]]) -> Relation:
        if not isinstance(node.this, exp.Identifier):
            if node.find(exp.Column):
                raise UnclearError(f"the table function {node.this.name or node.sql()}")
            columns = node.alias_column_names
            if not columns:
                raise UnclearError(f"the columns of {node.sql(dialect='spark')}")
            return Relation(tuple(RelationColumn(node.alias or None, name) for name in columns))
        if not node.db and node.name.lower() in ctes:
            relation = ctes[node.name.lower()]()
            return rules.named(relation, node.args.get("alias"), node.name)
        start = node.parts[0].meta.get("start")
        table = self._by_start.get(start) if start is not None else None
        if table is None:
            raise UnclearError(f"the table {node.sql(dialect='spark')}")
        if not table.plain:
            raise UnclearError(f"{table.name} is read at a version, by sample or with a pivot")
        if table.name not in self._columns:
            raise UnclearError(f"the columns of {table.name} are not known")
        occurrence = Occurrence(len(self.occurrences), table)
        self.occurrences.append(occurrence)
        own = frozenset({occurrence.id})
        qualifier = node.alias or node.name
        columns_ = self._columns[table.name]
        base = Relation(
            tuple(RelationColumn(qualifier, column.name, column.type) for column in columns_),
            {
                occurrence.id: {
                    index: exp.column(exp.to_identifier(column.name, quoted=True))
                    for index, column in enumerate(columns_)
                }
            },
            own,
            own,
            own,
        )
        alias = node.args.get("alias")
        return rules.named(base, alias) if alias is not None and alias.columns else base


class _Select:
    """One SELECT block, from FROM to LIMIT."""

    def __init__(
        self,
        analyser: _Analyser,
        node: exp.Select,
        ctes: Mapping[str, Callable[[], Relation]],
        outer: Relation | None,
    ) -> None:
        strange = [name for name, value in node.args.items() if value and name not in _SELECT_PARTS]
        if strange:
            raise UnclearError(f"{strange[0].replace('_', ' ').strip().upper()} in a SELECT")
        self._analyser = analyser
        self._node = node
        self._ctes = ctes
        self._outer = outer
        self._aliases: dict[str, exp.Expr] = {}
        self._correlated: Maps = {}
        self._from = self._joined()

    def relation(self) -> Relation:
        node = self._node
        where = node.args.get("where")
        if where is not None:
            self._filter(list(rules.conjuncts(where.this)))
        projections = self._projections()
        group = self._group(projections)
        having, qualify = node.args.get("having"), node.args.get("qualify")
        for clause in (having, qualify):
            if clause is not None:
                self._resolved(clause.this)
        aggregated = (
            group is not None
            or having is not None
            or any(rules.has_aggregate(projection.value) for projection in projections)
        )
        atoms: list[list[exp.Expr]] = [group or []] if aggregated else []
        windows = [window for part in (*node.expressions, qualify) if part for window in part.find_all(exp.Window)]
        if windows:
            atoms.append(self._partitions(windows))
        source = self._from
        maps: Maps = {
            occurrence_id: {
                index: mapping
                for index, projection in enumerate(projections)
                if (mapping := rules.mapped(projection.value, atoms, source.maps[occurrence_id])) is not None
            }
            for occurrence_id in source.maps
        }
        distinct = node.args.get("distinct") is not None
        if distinct and node.args["distinct"].args.get("on") is not None:
            raise UnclearError("DISTINCT ON")
        whole = aggregated and not group
        plain = not (aggregated or windows or distinct)
        filters_groups = having is not None or qualify is not None or whole
        bare = where is None and not node.args.get("joins") and not node.args.get("laterals")
        return Relation(
            tuple(RelationColumn(None, projection.name, projection.type) for projection in projections),
            maps,
            source.linear if plain else frozenset(),
            frozenset() if filters_groups else source.grows if plain and bare else source.linear,
            frozenset() if whole else source.needs,
            source.tangled,
            self._correlated,
            source.unions,
            self._unique(projections, group, distinct),
        )

    # -- FROM --------------------------------------------------------------------------------------------------------------

    def _joined(self) -> Relation:
        clause = self._node.args.get("from_")
        if clause is None:
            return Relation()
        relation = self._source(clause.this)
        for join in self._node.args.get("joins") or ():
            relation = self._join(relation, join)
        for lateral in self._node.args.get("laterals") or ():
            relation = self._lateral(relation, lateral)
        return relation

    def _source(self, node: exp.Expr) -> Relation:
        if isinstance(node, exp.Table):
            relation = self._analyser.table(node, self._ctes)
        elif isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):
                relation = rules.named(self._source(node.this), node.args.get("alias"))
            else:
                relation = self._analyser.query(node, self._ctes, None)
        elif isinstance(node, exp.Values):
            alias = node.args.get("alias")
            if alias is None or not alias.columns:
                raise UnclearError("VALUES without names for its columns")
            relation = Relation(tuple(RelationColumn(node.alias, column.name) for column in alias.columns))
        else:
            raise UnclearError(f"{node.key.upper()} in FROM")
        if node.args.get("pivots") or node.args.get("sample"):
            raise UnclearError("PIVOT or TABLESAMPLE")
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join)
        for lateral in node.args.get("laterals") or ():
            relation = self._lateral(relation, lateral)
        return relation

    def _lateral(self, left: Relation, node: exp.Lateral) -> Relation:
        alias = node.args.get("alias")
        if not node.args.get("view") or alias is None or not alias.columns:
            raise UnclearError("LATERAL without names for its columns")
        qualifier = alias.name or None
        more = tuple(RelationColumn(qualifier, column.name) for column in alias.columns)
        return replace(left, columns=left.columns + more, unique=None)

    def _join(self, left: Relation, node: exp.Join) -> Relation:
        side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
        if node.args.get("method") or kind not in _JOINS or side not in ("", "LEFT", "RIGHT", "FULL"):
            raise UnclearError(f"{node.args.get('method') or kind or side} JOIN")
        right = self._source(node.this)
        using = [name.name for name in node.args.get("using") or ()]
        width = len(left.columns)
        both = Relation(
            left.columns + right.columns,
            merged(left.maps, shifted(right.maps, width)),
            left.linear | right.linear,
            left.linear | right.linear,
            left.needs | right.needs,
            left.tangled | right.tangled | frozenset((a, b) for a in left.occurrences for b in right.occurrences),
            {},
            (*left.unions, *right.unions),
        )
        equal = [
            (rules.find(left.columns, None, name), width + rules.find(right.columns, None, name)) for name in using
        ]
        self._from = both
        conditions = [self._resolved(conjunct) for conjunct in rules.conjuncts(node.args.get("on"))]
        both = self._from  # subqueries in ON have added theirs
        equal += [pair for condition in conditions if (pair := rules.equality(condition)) is not None]
        equal = [(a, b) for a, b in equal if rules.same_type(both.columns[a], both.columns[b])]
        across = [(min(pair), max(pair)) for pair in equal if min(pair) < width <= max(pair)]
        if kind in ("SEMI", "ANTI"):
            kept = {occurrence_id: dict(left.maps[occurrence_id]) for occurrence_id in left.maps}
            kept |= {
                occurrence_id: rules.carried(both.maps[occurrence_id], across, to_left=True)
                for occurrence_id in right.maps
            }
            return replace(left, maps=kept, tangled=both.tangled, unique=None)
        if side == "":
            joined = replace(both, maps=rules.enriched(both.maps, equal))
        elif side == "LEFT":
            maps = {occurrence_id: both.maps[occurrence_id] for occurrence_id in left.maps}
            maps |= {
                occurrence_id: rules.carried(both.maps[occurrence_id], across, to_left=True)
                for occurrence_id in right.maps
            }
            joined = replace(
                both, maps=maps, linear=left.linear, grows=left.linear, needs=left.needs, unions=left.unions
            )
        elif side == "RIGHT":
            maps = {occurrence_id: both.maps[occurrence_id] for occurrence_id in right.maps}
            maps |= {
                occurrence_id: rules.carried(both.maps[occurrence_id], across, to_left=False)
                for occurrence_id in left.maps
            }
            joined = replace(
                both, maps=maps, linear=right.linear, grows=right.linear, needs=right.needs, unions=right.unions
            )
        else:
            joined = replace(
                both,
                maps={occurrence_id: {} for occurrence_id in both.maps},
                linear=frozenset(),
                grows=frozenset(),
                needs=frozenset(),
                unions=(),
            )
        # What a subquery in ON reads touches the rows of both sides that it is correlated with.
        for occurrence_id in both.maps.keys() - left.maps.keys() - right.maps.keys():
            joined.maps[occurrence_id] = {}
        return rules.with_using(joined, both, using, equal[: len(using)]) if using else joined

    # -- WHERE -------------------------------------------------------------------------------------------------------------

    def _filter(self, conjuncts: Sequence[exp.Expr]) -> None:
        equal = []
        for conjunct in conjuncts:
            resolved = self._resolved(conjunct, top=True)
            pair = rules.equality(resolved)
            if pair is not None and rules.same_type(self._from.columns[pair[0]], self._from.columns[pair[1]]):
                equal.append(pair)
            self._correlate(resolved)
        self._from = replace(self._from, maps=rules.enriched(self._from.maps, equal))

    def _correlate(self, conjunct: exp.Expr) -> None:
        """``inner = outer`` as a condition of its own: the inner rows matter to outer rows with that value only."""
        if self._outer is None or not isinstance(conjunct, exp.EQ | exp.NullSafeEQ):
            return
        for inner, outer in ((conjunct.this, conjunct.expression), (conjunct.expression, conjunct.this)):
            inner_at, outer_at = place_of(inner), place_of(outer, "^")
            if inner_at is None or outer_at is None:
                continue
            if not rules.same_type(self._from.columns[inner_at], self._outer.columns[outer_at]):
                continue
            for occurrence_id, columns in self._from.maps.items():
                if inner_at in columns:
                    self._correlated.setdefault(occurrence_id, {}).setdefault(outer_at, columns[inner_at])

    def _subquery(self, node: exp.Expr, user: exp.Expr, top: bool) -> exp.Expr:
        """What a subquery reads touches the rows that it is correlated with; IN also those with the value it gives."""
        inner = self._analyser.query(node, self._ctes, self._from)
        touched: Maps = {occurrence_id: dict(inner.outer.get(occurrence_id, {})) for occurrence_id in inner.maps}
        if top and isinstance(user, exp.In) and not isinstance(user.parent, exp.Not) and len(inner.columns) == 1:
            operand = place_of(self._resolved(user.this))
            if operand is not None and rules.same_type(self._from.columns[operand], inner.columns[0]):
                for occurrence_id, columns in inner.maps.items():
                    if 0 in columns:
                        touched[occurrence_id].setdefault(operand, columns[0])
        self._from = replace(self._from, maps=merged(self._from.maps, touched))
        return exp.column(exp.to_identifier(f"?{len(self._from.maps)}", quoted=True))

    # -- SELECT, GROUP BY, windows -----------------------------------------------------------------------------------------

    def _projections(self) -> list[_Projection]:
        listed: list[_Projection] = []
        for node in self._node.expressions:
            if node.is_star:
                listed += self._star(node)
                continue
            if isinstance(node, exp.Aliases):
                raise UnclearError("a function that gives several columns")
            value = node.unalias()
            if is_generator(value) and (not isinstance(value, exp.Explode) or not node.alias):
                raise UnclearError("a function that gives several columns or rows, without a name for its column")
            resolved = self._resolved(value)
            at = place_of(resolved)
            kind = self._from.columns[at].type if at is not None else rules.type_of(resolved)
            listed.append(_Projection(node.alias or rules.default_name(value), resolved, kind))
            if node.alias:
                self._aliases.setdefault(node.alias.lower(), resolved)
        return listed

    def _star(self, node: exp.Expr) -> Iterator[_Projection]:
        star = node if isinstance(node, exp.Star) else node.this
        if any(star.args.get(name) for name in ("replace", "rename")):
            raise UnclearError("* REPLACE or * RENAME")
        without = {item.name.lower() for item in star.args.get("except_") or ()}
        qualifier = node.table.lower() if isinstance(node, exp.Column) and node.table else None
        matched = False
        for index, place in enumerate(self._from.columns):
            fits = not place.hidden if qualifier is None else (place.qualifier or "").lower() == qualifier
            if not fits:
                continue
            matched = True
            if place.name.lower() not in without:
                yield _Projection(place.name, local(index), place.type)
        if not matched:
            raise UnclearError(f"{node.sql(dialect='spark')}")

    def _group(self, projections: Sequence[_Projection]) -> list[exp.Expr] | None:
        """The grouping expressions; an empty list when rows of several groupings come out; ``None``: not grouped."""
        clause = self._node.args.get("group")
        if clause is None:
            return None
        if any(clause.args.get(name) for name in ("rollup", "cube", "grouping_sets", "totals")):
            return []
        if clause.args.get("all"):
            return [projection.value for projection in projections if not rules.has_aggregate(projection.value)]
        values = []
        for item in clause.expressions:
            if isinstance(item, exp.GroupingSets | exp.Cube | exp.Rollup):
                return []
            if isinstance(item, exp.Literal) and not item.is_string:
                number = int(item.this)
                if not 1 <= number <= len(projections):
                    raise UnclearError(f"GROUP BY {number}")
                values.append(projections[number - 1].value)
            else:
                values.append(self._resolved(item))
        return values

    def _partitions(self, windows: Sequence[exp.Window]) -> list[exp.Expr]:
        """The expressions that every window is partitioned by."""
        named = {window.this.name.lower(): window for window in self._node.args.get("windows") or ()}
        common: list[exp.Expr] | None = None
        for window in windows:
            partition_by = window.args.get("partition_by") or []
            if not partition_by and window.alias:
                base = named.get(window.alias.lower())
                partition_by = (base.args.get("partition_by") or []) if base is not None else []
            own = [self._resolved(expression) for expression in partition_by]
            common = own if common is None else [expression for expression in common if expression in own]
        return common or []

    def _unique(
        self, projections: Sequence[_Projection], group: list[exp.Expr] | None, distinct: bool
    ) -> frozenset[int] | None:
        values = [projection.value for projection in projections]
        if group and all(key in values for key in group):
            return frozenset(values.index(key) for key in group)
        return frozenset(range(len(values))) if distinct else None

    # -- names -------------------------------------------------------------------------------------------------------------

    def _resolved(self, node: exp.Expr, *, top: bool = False) -> exp.Expr:
        """A copy in which columns are places and subqueries are opaque."""
        copied = node.copy()
        holder = exp.Paren(this=copied)
        for query in rules.topmost_queries(holder):
            user = query.parent
            while isinstance(user, exp.Subquery | exp.Paren) and user is not holder:
                user = user.parent
            is_top = top and (user is holder.this or (isinstance(user, exp.Not) and user is holder.this))
            opaque = self._subquery(query, user or holder, is_top)
            outermost: exp.Expr = query
            while isinstance(outermost.parent, exp.Subquery):
                outermost = outermost.parent
            outermost.replace(opaque)
        for column in list(holder.find_all(exp.Column)):
            if not column.name.startswith(("#", "^", "?")):
                column.replace(self._column(column))
        expression: exp.Expr = holder.this
        return expression

    def _column(self, node: exp.Column) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            return exp.Star()
        qualifier, name = node.table or None, node.name
        index = rules.seek(self._from.columns, qualifier, name)
        if index is not None:
            return local(index)
        if qualifier is not None:
            # ``a.b`` may be the member b of a column a.
            member = rules.seek(self._from.columns, node.text("db") or None, qualifier)
            if member is not None:
                return exp.Dot(this=local(member), expression=exp.to_identifier(name, quoted=True))
        elif name.lower() in self._aliases:
            return self._aliases[name.lower()].copy()
        if self._outer is not None:
            index = rules.seek(self._outer.columns, qualifier, name)
            if index is not None:
                return around(index)
        raise UnclearError(f"the column {node.sql(dialect='spark')}")
