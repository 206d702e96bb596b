"""Which functions give the same value for the same row, whenever and how often they are run.

Only what is known to is trusted: a function that is not on the list may be somebody's own code. The list is of Spark's own
functions (4.1) that depend on nothing but their arguments. Left out on purpose: those of chance, of the clock, of the session
and of the place of a row (``monotonically_increasing_id``, ``input_file_name``).

Some functions choose among rows that are equally good (``first``, ``max_by`` and ``row_number`` at a tie). What they give for a
key is a right answer whenever all rows of the key are looked at, in a full run as in an incremental one; it need not be the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

_TRUSTED_WORDS = """
    abs acos acosh add_months aggregate any any_match array array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
    array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh avg base64 bigint
    bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_bit_position bitmap_bucket_number bool_and bool_or
    boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce concat concat_ws
    contains conv corr cos cosh cot count count_if covar_pop covar_samp crc32 csc cume_dist date date_add date_diff
    date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees dense_rank double e element_at elt encode endswith equal_null every exists exp explode
    explode_outer expm1 extract factorial filter find_in_set flatten float floor forall format_number format_string from_json
    from_unixtime get get_json_object getbit greatest grouping hash hex hour hypot if ifnull ilike in initcap inline
    inline_outer instr int isnan isnotnull isnull json_array_length json_object_keys json_tuple kurtosis lag last_day lcase lead
    least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval
    make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval map map_concat map_contains_key
    map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean median
    min min_by minute mod month monthname months_between named_struct nanvl negative next_day not nth_value ntile nullif
    nullifzero nvl nvl2 octet_length overlay parse_url percent_rank percentile percentile_cont percentile_disc pi pmod
    posexplode posexplode_outer position positive pow power printf quarter radians raise_error rank reduce regexp regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint rlike round row_number rpad
    rtrim sec second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size
    skewness slice smallint some sort_array soundex space split split_part sqrt stack startswith std stddev stddev_pop
    stddev_samp str_to_map string struct substr substring substring_index sum tan tanh timestamp timestamp_add
    timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint to_binary to_char to_date to_json
    to_number to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp from_utc_timestamp to_varchar
    transform transform_keys transform_values translate trim trunc try_add try_avg try_cast try_divide try_element_at
    try_multiply try_subtract try_sum try_to_binary try_to_date try_to_number try_to_timestamp typeof ucase unbase64 unhex
    unix_date unix_micros unix_millis unix_seconds upper url_decode url_encode var_pop var_samp variance weekday weekofyear
    width_bucket xpath xxhash64 year zeroifnull zip_with convert_timezone timediff approx_count_distinct first first_value last
    last_value any_value collect_list collect_set array_agg listagg string_agg mode
"""
_TRUSTED = frozenset(_TRUSTED_WORDS.split())

_OPERATORS = (
    exp.And,
    exp.Or,
    exp.Xor,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.TryCast,
    exp.Interval,
    exp.Bracket,
    exp.Array,
    exp.Struct,
    exp.Map,
)


@dataclass(frozen=True, slots=True)
class DoubtfulCall:
    """A function that may give another value at the next run."""

    name: str
    known_volatile: bool

    def __str__(self) -> str:
        if self.known_volatile:
            return f"{self.name}() gives another value at each run"
        return f"{self.name}() is not known to give the same value for the same row at each run"


_VOLATILE_WORDS = """
    rand random randn uniform uuid shuffle randstr monotonically_increasing_id spark_partition_id input_file_name
    input_file_block_start input_file_block_length current_date curdate current_timestamp current_time now localtimestamp
    current_user user session_user current_catalog current_database current_schema current_timezone version unix_timestamp
    approx_percentile percentile_approx histogram_numeric
"""
_VOLATILE = frozenset(_VOLATILE_WORDS.split())


def doubts(tree: exp.Expr) -> list[DoubtfulCall]:
    """Every function in a query that is not known to be repeatable, once each, in the order they stand."""
    by_name: dict[str, DoubtfulCall] = {}
    for node in tree.find_all(exp.Func, bfs=False):
        name = _name(node)
        if name is None or name in _TRUSTED:
            continue
        if name == "unix_timestamp" and _has_arguments(node):
            continue
        by_name.setdefault(name, DoubtfulCall(name, name in _VOLATILE))
    return list(by_name.values())


def called(tree: exp.Expr) -> list[str]:
    """The names of all functions in a query, once each, in the order they stand."""
    names = (_name(node) for node in tree.find_all(exp.Func, bfs=False))
    return list(dict.fromkeys(name for name in names if name is not None))


def _has_arguments(node: exp.Func) -> bool:
    """``unix_timestamp()`` is the clock, ``unix_timestamp(x)`` is plain; sqlglot (30) puts the clock in for the missing argument."""
    argument = node.this
    return argument is not None and not isinstance(argument, exp.CurrentTimestamp)


def _name(node: exp.Func) -> str | None:
    """The function's name as Spark will read it; ``None`` for what is no call of a function."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() if isinstance(node.this, str) else node.this.name.lower()
    if isinstance(node, exp.AnonymousAggFunc):
        return str(node.this).lower()
    if isinstance(node, _OPERATORS):
        return None
    text = node.sql(dialect="spark").lower()
    head = text.partition("(")[0].strip()
    return head if head.replace("_", "a").isalnum() else None


_AGGREGATES_WORDS = """
    any any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list collect_set corr count count_if covar_pop
    covar_samp every first first_value grouping kurtosis last last_value listagg max max_by mean median min min_by mode
    percentile percentile_cont percentile_disc approx_count_distinct regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop
    var_samp variance
"""
_AGGREGATES = frozenset(_AGGREGATES_WORDS.split())
_GENERATORS = frozenset(
    ["explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"]
)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node makes one value of many rows, outside a window."""
    if not (isinstance(node, exp.AggFunc) or (isinstance(node, exp.Func) and _name(node) in _AGGREGATES)):
        return False
    below: exp.Expr = node
    above = node.parent
    while isinstance(above, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        below, above = above, above.parent
    return not (isinstance(above, exp.Window) and above.this is below)


def is_generator(node: exp.Expr) -> bool:
    """Whether a node makes several rows of one."""
    return isinstance(node, exp.Explode | exp.Posexplode | exp.Inline) or (
        isinstance(node, exp.Func) and _name(node) in _GENERATORS
    )
