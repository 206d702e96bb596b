"""The expression language: values as in Java, types known before it runs, and nothing reachable beyond its list."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.workflow.expressions import (
    ExpressionError,
    ExpressionLimitError,
    ExpressionSyntaxError,
    ExpressionTypeError,
    ExpressionValueError,
    check,
    evaluate,
    evaluate_condition,
    parse,
)
from icefloe.workflow.expressions.arithmetic import double_text
from icefloe.workflow.expressions.interpreter import Limits
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import LONG_MAX, LONG_MIN, ParamType
from tests.fuzz.corpus import ESCAPES

SCOPE = Scope(
    params={"x": 5, "d": 1.5, "name": "abc", "flag": True, "arr": (10, 20), "m": {"k": "v", "n": 3}, "empty": ()},
    steps={"load": {"rows": 7, "MAESTRO_STEP_STATUS": "SUCCEEDED"}, "job.1": {"p": "q"}},
    this_step={"step_id": "me"},
    signals={"upstream": {"region": "eu"}},
    signal_dependencies={"0": {"day": "20240101"}},
    foreach={"loop": {"work": {"rows": (1, 2, 3)}}},
    subworkflows={"sub": {"inner": {"out": "z"}}},
    run={"INITIATOR_TYPE": "MANUAL"},
    now_ms=lambda: 1_704_067_200_000,
    new_uuid=lambda: "00000000-0000-0000-0000-000000000000",
    unique_id=lambda: 42,
    random=lambda: 0.25,
)


def value(expression: str) -> Any:
    return evaluate(expression, SCOPE).value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # precedence and associativity
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 2", 5),
        ("2 + 3 + 'x' + 2 + 3", "5x23"),
        ("1 < 2 == true", True),
        ("1 + 1 == 2 && 2 * 2 > 3 || false", True),
        ("true || false && false", True),
        ("!true || true", True),
        ("- 2 * 3", -6),
        ("-x + +x", 0),
        ("true ? 1 : false ? 2 : 3", 1),
        ("false ? 1 : false ? 2 : 3", 3),
        ("true ? false ? 1 : 2 : 3", 2),
        # 64-bit integers
        ("9223372036854775807 + 1", LONG_MIN),
        ("-9223372036854775808 - 1", LONG_MAX),
        ("-9223372036854775808", LONG_MIN),
        ("-9223372036854775808 / -1", LONG_MIN),
        ("-9223372036854775808 % -1", 0),
        ("Math.abs(-9223372036854775808)", LONG_MIN),
        ("4611686018427387904 * 2", LONG_MIN),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("0xff", 255),
        ("5L", 5),
        # doubles
        ("1 / 2.0", 0.5),
        ("1e3", 1000.0),
        (".5 + .5", 1.0),
        ("5.5 % 2", 1.5),
        ("1 == 1.0", True),
        ("2d", 2.0),
        # strings
        ("'a' + 1.0", "a1.0"),
        ("'' + 1e10", "1.0E10"),
        ("'' + 100.0", "100.0"),
        ("'' + true + null", "truenull"),
        ('"tab\\tquote\\"uni\\u00e9"', 'tab\tquote"unié'),
        ("'no \\n escapes'", "no \\n escapes"),
        ("'abc'.length()", 3),
        ("'abc'.substring(1)", "bc"),
        ("'abc'.substring(0, 2).toUpperCase()", "AB"),
        ("'abcabc'.lastIndexOf('b') - 'abcabc'.indexOf('b')", 3),
        ("' x '.trim()", "x"),
        ("'a,b,,'.split(',')", ("a", "b")),
        ("'a.b'.split('\\.')", ("a", "b")),
        ("'a|b|c'.split('\\|', 2)", ("a", "b|c")),
        ("'aXbX'.replace('X', '--')", "a--b--"),
        ("'b'.compareTo('a') > 0", True),
        ("'a'.equals('a') && !'a'.equals(1)", True),
        ("'x'.isEmpty() || ''.isEmpty()", True),
        ("name.contains('b') && name.startsWith('a') && name.endsWith('c')", True),
        ("String.valueOf(5) + String.valueOf(true)", "5true"),
        (
            "String.format('%05d|%-4s|%4s|%.2f|%x|%,d|%+d|%%', 42, 'a', 'b', 3.14159, 255, 1234567, 5)",
            "00042|a   |   b|3.14|ff|1,234,567|+5|%",
        ),
        ("String.format('%x', -1)", "ffffffffffffffff"),
        ("String.join('-', 'a', 'b', 'c')", "a-b-c"),
        ("String.join('-', arr)", "10-20"),
        ("'tab\"'.escape()", 'tab\\"'),
        # arrays and maps
        ("arr[1] + arr.length", 22),
        ("new long[]{1, x, 3}[1]", 5),
        ("new double[]{1, 2.5}", (1.0, 2.5)),
        ("new String[]{'a'}", ("a",)),
        ("m['k'] + m.get('n') + m.size()", "v32"),
        ("m.containsKey('zz') ? 1 : m.getOrDefault('zz', 2)", 2),
        # parameters
        ("x", 5),
        ("params.get('x') + params['x']", 10),
        ("params.containsKey('x') && !params.containsKey('nope')", True),
        ("load__rows", 7),
        ("params.getFromStep('load', 'MAESTRO_STEP_STATUS') == 'SUCCEEDED'", True),
        ("params.getFromStep('job.1', 'p')", "q"),
        ("params.getFromStep('step_id')", "me"),
        ("params.getFromSignal('upstream', 'region') + params.getFromSignal('region')", "eueu"),
        ("params.getFromSignalOrDefault('upstream', 'nope', 'd')", "d"),
        ("params.getFromSignalOrDefault('nope', 'x', 5)", 5),
        ("params.getFromSignalDependency('0', 'day')", "20240101"),
        ("params.getFromForeach('loop', 'work', 'rows')[2]", 3),
        ("params.getFromSubworkflow('sub', 'inner', 'out')", "z"),
        ("params.getFromInstance('INITIATOR_TYPE')", "MANUAL"),
        ("params.nextUniqueId()", 42),
        # numbers
        ("Math.min(1, 2) + Math.max(1.5, 2)", 3.0),
        ("Math.pow(2, 10)", 1024.0),
        ("Math.round(2.5) + Math.round(-2.5)", 1),
        ("Math.floor(-1.5) + Math.ceil(1.2)", 0.0),
        ("Math.random()", 0.25),
        ("Long.valueOf('12') + Long.parseLong('-3') + Integer.parseInt('1')", 10),
        ("Double.parseDouble('1.5') * 2", 3.0),
        ("d.longValue() + x.doubleValue()", 6.0),
        ("Boolean.parseBoolean('TRUE')", True),
        ("UUID.randomUUID().toString()", "00000000-0000-0000-0000-000000000000"),
        ("System.currentTimeMillis()", 1_704_067_200_000),
        # dates
        ("Util.dateIntsBetween(20200226, 20200303, 1)", (20200226, 20200227, 20200228, 20200229, 20200301, 20200302)),
        ("Util.dateIntsBetween('20200303', 20200226, -2)", (20200301, 20200228, 20200226)[:3]),
        ("Util.intsBetween(0, 7, 3)", (0, 3, 6)),
        ("Util.intsBetween(7, 0, -3)", (7, 4, 1)),
        ("Util.incrementDateInt(20240228, 2)", "20240301"),
        ("Util.tsToDateInt(Util.dateIntToTs('20240229'))", "20240229"),
        ("Util.dateIntHourToTs('20210707', '01', 'UTC', 0, 0)", 1625619600000),
        ("Util.timeoutForDateIntDeadline(20240101, '2 hours')", "7200000 milliseconds"),
        ("new DateTime().toString('yyyy-MM-dd')", "2024-01-01"),
        ("new DateTime(0).toString()", "1970-01-01T00:00:00.000Z"),
        (
            "new DateTime(0).withZone(DateTimeZone.forID('America/New_York')).toString()",
            "1969-12-31T19:00:00.000-05:00",
        ),
        ("new DateTime(1569018000000).withZone(DateTimeZone.forID('UTC')).monthOfYear().getAsText();", "September"),
        ("new DateTime(0).plusMonths(1).plusDays(30).toString('yyyyMMdd')", "19700303"),
        (
            "DateTimeFormat.forPattern('yyyyMMdd').parseDateTime('20200131').plusMonths(1).toString('yyyyMMdd')",
            "20200229",
        ),
        ("DateTimeFormat.forPattern(\"yyyy-MM-dd'T'HH:mm:ss.SSS\").print(1234567890123)", "2009-02-13T23:31:30.123"),
        ("DateTimeFormat.forPattern('EEE, d MMM yyyy').print(0)", "Thu, 1 Jan 1970"),
        ("DateTime.parse('31/12/99', DateTimeFormat.forPattern('dd/MM/yy')).getYear()", 1999),
        ("Days.daysBetween(new DateTime(0), new DateTime(86400000 * 3 - 1)).getDays()", 2),
        ("new DateTime(0).getDayOfWeek() == DateTimeConstants.THURSDAY", True),
        ("new DateTime(0).isBefore(new DateTime(1)) && !new DateTime(0).isAfter(new DateTime(1))", True),
        (
            "DateTimeZone.UTC.getOffset(new DateTime()) + DateTimeZone.forID('Asia/Tokyo').getOffset(new DateTime(0))",
            32400000,
        ),
        ("new DateTime(90061001).withTimeAtStartOfDay().getMillis()", 86400000),
        # odds
        ("return x + 1;", 6),
        ("x // a comment", 5),
        ("/* before */ x /* after */", 5),
        ("null == null", True),
        ("'a' != null", True),
        ("new String('a') + new String()", "a"),
    ],
)
def test_expressions_have_the_values_java_gives_them(expression: str, expected: object) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is type(expected)


longs = st.integers(LONG_MIN, LONG_MAX)


def _java(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


@given(longs, longs, st.sampled_from("+-*/%"))
def test_long_arithmetic_is_that_of_64_bit_twos_complement(left: int, right: int, operator: str) -> None:
    scope = Scope(params={"a": left, "b": right})
    if operator in "/%" and right == 0:
        with pytest.raises(ExpressionValueError, match="division by zero"):
            evaluate(f"a {operator} b", scope)
        return
    quotient = abs(left) // abs(right) if right else 0
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    expected = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": quotient,
        "%": left - right * quotient,
    }[operator]
    assert evaluate(f"a {operator} b", scope).value == _java(expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_doubles_text_reads_back_as_the_same_double(number: float) -> None:
    words = double_text(number)
    assert float(words.replace("E", "e")) == number
    assert "." in words


@given(st.lists(st.sampled_from(["true", "false"]), min_size=1, max_size=8), st.data())
def test_logic_agrees_with_python(words: list[str], data: st.DataObject) -> None:
    operators = [data.draw(st.sampled_from(["&&", "||"])) for _ in words[1:]]
    expression, python = words[0], words[0].capitalize()
    for operator, word in zip(operators, words[1:], strict=True):
        expression += f" {operator} {word}"
        python += f" {'and' if operator == '&&' else 'or'} {word.capitalize()}"
    assert value(expression) is eval(python)


def test_the_right_side_of_a_decided_condition_is_not_evaluated() -> None:
    assert value("false && 1 / (x - 5) > 0") is False
    assert value("true || nothing_of_that_name") is True
    assert value("x == 5 ? 1 : 1 / 0") == 1


@pytest.mark.parametrize(
    ("expression", "error", "part"),
    [
        ("", ExpressionSyntaxError, "empty"),
        ("1 +", ExpressionSyntaxError, "ends too early"),
        ("1 = 2", ExpressionSyntaxError, "'=' is not expected"),
        ("(1", ExpressionSyntaxError, "ends too early"),
        ("'open", ExpressionSyntaxError, "not expected"),
        ("1 2", ExpressionSyntaxError, "'2' is not expected"),
        ("9223372036854775808", ExpressionSyntaxError, "64 bits"),
        ("99999999999999999999999999", ExpressionSyntaxError, "64 bits"),
        ("010", ExpressionSyntaxError, "must not begin with 0"),
        ("1e999", ExpressionSyntaxError, "too large"),
        ('"\\q"', ExpressionSyntaxError, "is no escape"),
        ('"\\ud800"', ExpressionSyntaxError, "surrogate"),
        ("x = 5; x", ExpressionSyntaxError, "'=' is not expected"),
        ("if (x > 1) return 2;", ExpressionSyntaxError, "not expected"),
        ("1 + true", ExpressionTypeError, "does not go with LONG and BOOLEAN"),
        ("'a' * 2", ExpressionTypeError, "does not go with STRING and LONG"),
        ("'a' < 'b'", ExpressionTypeError, "does not go with STRING and STRING"),
        ("'5' == 5", ExpressionTypeError, "does not go with STRING and LONG"),
        ("1 && true", ExpressionTypeError, "needs true or false"),
        ("!5", ExpressionTypeError, "needs true or false"),
        ("-'a'", ExpressionTypeError, "needs a number"),
        ("5 ? 1 : 2", ExpressionTypeError, "needs true or false"),
        ("x.length()", ExpressionTypeError, "LONG has no method 'length'"),
        ("name.lenght()", ExpressionTypeError, "has no method"),
        ("name.substring('a')", ExpressionTypeError, r"takes \(LONG\) or \(LONG, LONG\)"),
        ("arr['a']", ExpressionTypeError, "index of an array"),
        ("m[1]", ExpressionTypeError, "index of a map"),
        ("x[0]", ExpressionTypeError, "has no elements"),
        ("new File('x')", ExpressionTypeError, "cannot be made"),
        ("new long[]{'a'}", ExpressionTypeError, "cannot hold"),
        ("Util", ExpressionTypeError, "is a class"),
        ("null", ExpressionTypeError, "gives a NULL"),
        ("new DateTime(0)", ExpressionTypeError, "gives a DATETIME"),
        ("params", ExpressionTypeError, "cannot be a parameter's value"),
        ("1 / 0", ExpressionValueError, "division by zero"),
        ("1.0 / 0", ExpressionValueError, "division by zero"),
        ("1 % 0", ExpressionValueError, "division by zero"),
        ("1.5 % 0", ExpressionValueError, "division by zero"),
        ("1e308 * 10", ExpressionValueError, "finite"),
        ("arr[2]", ExpressionValueError, "index 2 in an array of length 2"),
        ("arr[-1]", ExpressionValueError, "index -1"),
        ("m['zz']", ExpressionValueError, "the map has no 'zz'"),
        ("'abc'.substring(2, 1)", ExpressionValueError, "substring"),
        ("Long.valueOf('x')", ExpressionValueError, "is no whole number"),
        ("Long.valueOf('9223372036854775808')", ExpressionValueError, "64 bits"),
        ("'a'.split('a+')", ExpressionValueError, "is a pattern"),
        ("'a'.replaceAll('a*', 'b')", ExpressionValueError, "is a pattern"),
        ("String.format('%q', 1)", ExpressionValueError, "is no format"),
        ("String.format('%s %s', 1)", ExpressionValueError, "more values"),
        ("String.format('%d', 'a')", ExpressionValueError, "needs a whole number"),
        ("DateTimeZone.forID('Mars/Olympus')", ExpressionValueError, "no time zone"),
        ("DateTimeFormat.forPattern('yyyy').parseDateTime('20x')", ExpressionValueError, "not of the form"),
        ("DateTimeFormat.forPattern('yyyyMMdd').parseDateTime('20230230')", ExpressionValueError, "is no date"),
        ("DateTimeFormat.forPattern('bbb').print(0)", ExpressionValueError, "means nothing"),
        ("new DateTime(9223372036854775807).toString()", ExpressionValueError, "years 1 to 9999"),
        ("new DateTime(0).plusYears(99999)", ExpressionValueError, "years 1 to 9999"),
        ("new DateTime(0).withDayOfMonth(32)", ExpressionValueError, "is no dayOfMonth"),
        ("Util.intsBetween(0, 1, 0)", ExpressionValueError, "must not be 0"),
        ("nope", UnknownNameError, "no parameter 'nope'"),
        ("params.get('nam')", UnknownNameError, "no parameter 'nam'"),
        ("params.getFromStep('lod', 'rows')", UnknownNameError, "no step 'lod'"),
        ("params.getFromStep('load', 'rws')", UnknownNameError, "has no 'rws'"),
    ],
)
def test_what_cannot_be_is_an_error_of_its_kind(expression: str, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        value(expression)


def test_an_error_says_in_which_column() -> None:
    with pytest.raises(ExpressionTypeError) as caught:
        value("1 + name.lenght()")
    assert caught.value.column == 10
    assert caught.value.hint == "did you mean 'length'?"


def test_a_condition_must_be_true_or_false() -> None:
    assert evaluate_condition("x > 3", SCOPE) is True
    with pytest.raises(ExpressionTypeError, match="must be true or false"):
        evaluate_condition("x", SCOPE)


# --- limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "1" * 30_000,
        "!" * 1000 + "true",
        "x" + ".toString()" * 1000,
        "true ? " * 500 + "1" + " : 2" * 500,
        "Math.max(" * 200 + "1" + ", 1)" * 200,
        "Util.intsBetween(0, 9223372036854775807, 1)",
        "Util.intsBetween(-9223372036854775808, 9223372036854775807, 1)",
        "Util.dateIntsBetween(20000101, 99991231, 1).length + Util.dateIntsBetween('00010101', '99991231', 1).length",
        "big.replace('x', big).replace('x', big)",
        "(big + big + big + big).replace('x', big)",
        "String.join(big, big, big, big, big, big, big, big, big, big, big, big)",
    ],
)
def test_what_would_take_or_build_too_much_is_refused_quickly(expression: str) -> None:
    scope = Scope(params={"x": 1, "big": "x" * 100_000})
    began = time.process_time()
    with pytest.raises(ExpressionLimitError):
        evaluate(expression, scope)
    assert time.process_time() - began < 10


def test_parentheses_alone_are_no_depth_and_long_sums_are_fine() -> None:
    assert value("(" * 500 + "1" + ")" * 500) == 1
    assert value("1 + " * 4000 + "1") == 4001
    assert value("x > 1 && " * 1000 + "true") is True


def test_the_budget_of_work_and_the_clock_end_an_expression() -> None:
    with pytest.raises(ExpressionLimitError, match="takes too long"):
        evaluate("1 + 1 + 1 + 1", SCOPE, Limits(work=3))
    with pytest.raises(ExpressionLimitError, match="takes too long"):
        evaluate("1 + 1", SCOPE, Limits(seconds=-1))


# --- nothing beyond the list ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", ESCAPES)
def test_known_escapes_of_other_languages_reach_nothing(expression: str) -> None:
    try:
        found = evaluate(
            expression, Scope(params={"name": "n", "x": 1, "big": "b", "arr": (1,), "words": ("a",), "m": {"a": "b"}})
        )
    except (ExpressionError, UnknownNameError):
        return
    assert type(found.value) in (str, int, float, bool, tuple)
    if isinstance(found.value, str):
        assert "class" not in found.value or "{0.__class__" in found.value  # the format's own text, not what it names


@pytest.mark.parametrize(
    "attribute",
    [
        "__class__",
        "__init__",
        "__globals__",
        "__dict__",
        "__len__",
        "upper",
        "format",
        "encode",
        "real",
        "denominator",
        "getClass",
        "class",
        "scope",
        "column",
    ],
)
@pytest.mark.parametrize(
    "receiver", ["name", "x", "arr", "m", "params", "Util", "String", "new DateTime(0)", "flag", "d"]
)
def test_no_attribute_of_a_python_object_is_reachable(receiver: str, attribute: str) -> None:
    for form in (f"{receiver}.{attribute}", f"{receiver}.{attribute}()", f"{receiver}['{attribute}']"):
        with pytest.raises((ExpressionError, UnknownNameError)):
            if receiver != "String" or attribute != "format":
                value(form)
            else:
                value("String.format()")


def test_a_foreign_object_in_the_scope_is_refused() -> None:
    with pytest.raises(ExpressionTypeError, match="is no value"):
        evaluate("o", Scope(params={"o": object()}))  # type: ignore[dict-item]


# --- types before it runs ------------------------------------------------------------------------------------------------

TYPES = {"x": ParamType.LONG, "name": ParamType.STRING, "arr": ParamType.LONG_ARRAY, "flag": ParamType.BOOLEAN}


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("1 + 2", "LONG"),
        ("1 + 2.0", "DOUBLE"),
        ("x + 'a'", "STRING"),
        ("x > 1", "BOOLEAN"),
        ("arr[0]", "LONG"),
        ("params.get('x')", "LONG"),
        ("params['name']", "STRING"),
        ("name.split(',')", "STRING_ARRAY"),
        ("params.getFromStep('a', 'b')", "ANY"),
        ("params.getFromStep('a', 'b') + 1", "ANY"),
        ("flag ? 1 : 'a'", "ANY"),
        ("new DateTime(0).plusDays(1)", "DATETIME"),
        ("unknown", "ANY"),
    ],
)
def test_the_kind_of_an_expression_is_known_beforehand(expression: str, kind: str) -> None:
    found = check(expression, TYPES)
    assert (found.kind, found.problems) == (kind, [])


@pytest.mark.parametrize(
    "expression",
    [
        "x + true",
        "name > 1",
        "!x",
        "x && flag",
        "name.foo()",
        "x.length",
        "arr['a']",
        "name.substring(name)",
        "1 / 0",
        "'a' == 1",
        "new Foo()",
        "unknown.foo()",
    ],
)
def test_type_errors_are_found_without_running(expression: str) -> None:
    assert check(expression, TYPES).problems


def test_every_finding_of_an_expression_is_told() -> None:
    assert len(check("name.foo() + x.bar() + (1 && 2)", TYPES).problems) >= 4


def test_the_checker_notes_what_is_referred_to() -> None:
    found = check(
        "a + params.get('b') + params['c'] + params.getFromStep('s', 'p') + (params.containsKey('o') ? 1 : 2)", {}
    )
    assert set(found.names) == {"a", "b", "c"}
    assert set(found.steps) == {("s", "p")}
    assert found.optional == {"o"}


def test_parsing_the_same_text_twice_costs_once() -> None:
    assert parse("1 + 2 * x") is parse("1 + 2 * x")
