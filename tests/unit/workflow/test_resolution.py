"""Parameters from their definitions to their values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.workflow.default_params import DEFAULTS
from icefloe.workflow.expressions import ExpressionLimitError
from icefloe.workflow.interpolation import MissingSecretError, interpolate, names_in, reveal, secrets_in
from icefloe.workflow.model import ForeachStep, Param, ParamMode
from icefloe.workflow.resolution import (
    Layer,
    ParamError,
    find_cycle,
    literal,
    merge,
    param_from_text,
    resolve_loop,
    resolve_params,
    resolve_settings,
    resolve_timeout,
)
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import ParamType, TypedValue

STRING, LONG = ParamType.STRING, ParamType.LONG
SCOPE = Scope(
    params={"OUT": "outer", "n": 3, "list": ("a", "b"), "conf": {"k": 1}, "ratio": 0.1, "on": True},
    steps={"capture": {"icdc_table": "ice.changes", "parts": (1, 2)}, "job.1": {"p": "q"}},
    files={"file:q.sql": "select * from ${OUT} -- $FILE{other.sql} $$", "s3:bucket/key": "from storage"},
)


def text(name: str, words: str, mode: ParamMode = ParamMode.MUTABLE) -> Param:
    return Param(name, STRING, value=words, mode=mode)


def values(*params: Param, scope: Scope = SCOPE) -> dict[str, object]:
    return {name: found.value for name, found in resolve_params(params, scope).items()}


# --- texts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("${n} and ${ OUT }", "3 and outer"),
        ("$${n} $$ $$$$ $$${n}", "${n} $ $$ $3"),
        ("${capture__icdc_table}/${job.1__p}", "ice.changes/q"),
        ("${list} ${conf} ${ratio} ${on}", '["a", "b"] {"k": 1} 0.1 true'),
        ("$HOME ${x:-y} ${1} $(pwd) ${}", "$HOME ${x:-y} ${1} $(pwd) ${}"),
        ("$ENV{PASSWORD}", "$ENV{PASSWORD}"),
        ("$FILE{q.sql}", "select * from outer -- $FILE{other.sql} $"),
        ("$S3{ bucket/key }!", "from storage!"),
        ("$$FILE{q.sql}", "$FILE{q.sql}"),
        ("no references", "no references"),
    ],
)
def test_references_in_texts_are_filled_in(words: str, expected: str) -> None:
    assert interpolate(words, SCOPE) == expected


@pytest.mark.parametrize("words", ["${nope}", "${capture__nope}", "${nope__x}", "$FILE{gone.sql}"])
def test_a_reference_that_leads_nowhere_is_an_error(words: str) -> None:
    with pytest.raises(UnknownNameError):
        interpolate(words, SCOPE)


@given(st.text())
def test_doubling_the_dollars_protects_any_text(words: str) -> None:
    assert interpolate(words.replace("$", "$$"), SCOPE) == words


@given(st.text(alphabet="${}nOUT_ FILES3", max_size=40))
def test_filling_in_never_fails_but_for_what_is_unknown(words: str) -> None:
    try:
        interpolate(words, SCOPE)
    except UnknownNameError:
        assert any(name not in SCOPE.params for name in names_in(words)) or "FILE{" in words or "S3{" in words


def test_a_value_is_not_filled_in_again() -> None:
    scope = Scope(params={"a": "${b}", "b": "secret"})
    assert interpolate("${a}", scope) == "${b}"


# --- order and circles ---------------------------------------------------------------------------------------------------


def test_parameters_are_computed_in_the_order_they_need_each_other() -> None:
    found = values(
        text("greeting", "${word}, ${total} times"),
        Param("total", LONG, expression="half * 2"),
        Param("half", LONG, expression="n + 1"),
        text("word", "hello"),
    )
    assert found == {"greeting": "hello, 8 times", "total": 8, "half": 4, "word": "hello"}


def test_a_chain_of_a_thousand_parameters_resolves() -> None:
    chain = [text(f"p{i}", f"${{p{i + 1}}}") for i in range(1000)]
    assert values(*chain, text("p1000", "end"))["p0"] == "end"


def test_a_parameters_own_name_means_the_outer_one() -> None:
    assert values(text("OUT", "${OUT}/sub"), Param("n", LONG, expression="n + 1")) == {"OUT": "outer/sub", "n": 4}


@pytest.mark.parametrize(
    "params",
    [
        (text("a", "${b}"), text("b", "${a}")),
        (text("a", "${b}"), Param("b", STRING, expression="c"), text("c", "${a}")),
        (Param("a", LONG, expression="params.get('b')"), Param("b", LONG, expression="params['a'] + 1")),
        (Param("a", STRING, expression="params.get('' + 'b')"), Param("b", STRING, expression="params.get('' + 'a')")),
    ],
)
def test_parameters_that_need_each_other_are_an_error(params: tuple[Param, ...]) -> None:
    with pytest.raises(ParamError, match="in a circle"):
        resolve_params(params, SCOPE)


def test_the_circle_is_named() -> None:
    params = (text("x", "${a}"), text("a", "${b}"), text("b", "${c}"), text("c", "${a}"))
    assert find_cycle(params) == ("a", "b", "c", "a")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_a_circle_is_found_exactly_when_there_is_one(pairs: list[tuple[int, int]]) -> None:
    needs: dict[int, set[int]] = {i: set() for i in range(7)}
    for source, target in pairs:
        if source != target:
            needs[source].add(target)
    params = tuple(text(f"p{i}", "".join(f"${{p{t}}}" for t in sorted(targets))) for i, targets in needs.items())
    left = dict(needs)
    while free := [i for i, targets in left.items() if not targets & set(left)]:
        for i in free:
            del left[i]
    assert (find_cycle(params) is not None) is bool(left)


# --- types ---------------------------------------------------------------------------------------------------------------


def test_values_have_the_declared_types() -> None:
    found = resolve_params(
        (
            Param("s", STRING, expression="1 + 1"),
            Param("d", ParamType.DOUBLE, expression="1 + 1"),
            Param("a", ParamType.STRING_ARRAY, value=("${n}", "x")),
            Param("m", ParamType.STRING_MAP, value={"k": "${OUT}"}),
            Param("p", ParamType.MAP, members=(Param("e", LONG, expression="n * 2"), text("t", "${OUT}"))),
        ),
        SCOPE,
    )
    assert found == {
        "s": TypedValue(STRING, "2"),
        "d": TypedValue(ParamType.DOUBLE, 2.0),
        "a": TypedValue(ParamType.STRING_ARRAY, ("3", "x")),
        "m": TypedValue(ParamType.STRING_MAP, {"k": "outer"}),
        "p": TypedValue(ParamType.MAP, {"e": 6, "t": "outer"}),
    }


@pytest.mark.parametrize(
    ("param", "part"),
    [
        (Param("a", LONG, expression="'x'"), "is a LONG"),
        (Param("a", ParamType.LONG_ARRAY, expression="'a'.split(',')"), "is not a LONG"),
        (Param("a", STRING, expression="list"), "is not a STRING"),
        (Param("a", STRING, mode=ParamMode.PROVIDED), "must give it a value"),
    ],
)
def test_a_value_that_does_not_fit_names_its_parameter(param: Param, part: str) -> None:
    with pytest.raises(ParamError, match=part) as caught:
        resolve_params((param,), SCOPE)
    assert str(caught.value.where).startswith("parameter 'a'")


def test_a_provided_parameter_takes_the_value_it_is_given() -> None:
    assert values(Param("n", LONG, mode=ParamMode.PROVIDED)) == {"n": 3}


def test_texts_that_grow_without_bound_are_refused() -> None:
    bomb = [text(f"p{i}", f"${{p{i + 1}}}" * 10) for i in range(20)]
    with pytest.raises(ExpressionLimitError):
        resolve_params((*bomb, text("p20", "x" * 10)), SCOPE)


# --- layers --------------------------------------------------------------------------------------------------------------


def test_later_layers_win_in_the_order_defaults_definition_trigger_run_restart() -> None:
    layers = [(layer, (text("x", layer.name),)) for layer in reversed(Layer) if layer is not Layer.OUTPUT]
    for last in (Layer.RESTART, Layer.RUN, Layer.TRIGGER, Layer.DEFINITION, Layer.DEFAULTS):
        assert merge(layers)[0].value == last.name
        layers = [layer for layer in layers if layer[0] is not last]


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        (ParamMode.CONSTANT, ()),
        (ParamMode.IMMUTABLE, ()),
        (ParamMode.MUTABLE_ON_START, (Layer.TRIGGER, Layer.RUN)),
        (ParamMode.MUTABLE_ON_START_RESTART, (Layer.TRIGGER, Layer.RUN, Layer.RESTART)),
        (ParamMode.MUTABLE, (Layer.TRIGGER, Layer.RUN, Layer.RESTART, Layer.OUTPUT)),
    ],
)
def test_a_mode_says_who_may_change_a_parameter(mode: ParamMode, allowed: tuple[Layer, ...]) -> None:
    for layer in (Layer.TRIGGER, Layer.RUN, Layer.RESTART, Layer.OUTPUT):
        layers = ((Layer.DEFINITION, (text("x", "old", mode),)), (layer, (text("x", "new"),)))
        if layer in allowed:
            assert merge(layers) == (text("x", "new", mode),)
        else:
            with pytest.raises(ParamError, match="cannot be changed"):
                merge(layers)


def test_an_override_of_another_type_is_refused_unless_nothing_is_lost() -> None:
    with pytest.raises(ParamError, match="is a LONG"):
        merge(((Layer.DEFINITION, (Param("x", LONG, value=1),)), (Layer.RUN, (text("x", "a"),))))
    double = Param("x", ParamType.DOUBLE, value=1.5)
    (found,) = merge(((Layer.DEFINITION, (double,)), (Layer.RUN, (Param("x", LONG, value=2),))))
    assert (found.type, found.value) == (ParamType.DOUBLE, 2.0)


def test_maps_merge_member_by_member() -> None:
    old = Param("conf", ParamType.MAP, members=(text("a", "1"), text("b", "2")))
    new = Param("conf", ParamType.MAP, members=(text("b", "3"), text("c", "4")))
    (found,) = merge(((Layer.DEFINITION, (old,)), (Layer.RUN, (new,))))
    assert found.members == (text("a", "1"), text("b", "3"), text("c", "4"))


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        (STRING, "5", "5"),
        (LONG, " 5 ", 5),
        (ParamType.DOUBLE, "1", 1.0),
        (ParamType.BOOLEAN, "TRUE", True),
        (ParamType.LONG_ARRAY, "1, 2,3", (1, 2, 3)),
        (ParamType.STRING_ARRAY, "[a,b]", ("a", "b")),
        (ParamType.LONG_ARRAY, "", ()),
        (ParamType.STRING_MAP, '{"k": "v"}', {"k": "v"}),
    ],
)
def test_command_line_values_take_the_type_of_the_definition(kind: ParamType, words: str, expected: object) -> None:
    assert param_from_text("x", words, Param("x", kind, value=None)).value == expected


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (LONG, "five"),
        (LONG, "9223372036854775808"),
        (LONG, "9" * 5000),
        (ParamType.BOOLEAN, "yes"),
        (ParamType.DOUBLE, "nan"),
        (ParamType.DOUBLE, "inf"),
        (ParamType.MAP, "{"),
        (ParamType.LONG_ARRAY, "1,x"),
    ],
)
def test_command_line_values_of_the_wrong_type_are_refused(kind: ParamType, words: str) -> None:
    with pytest.raises(ParamError):
        param_from_text("x", words, Param("x", kind, value=None))


def test_python_values_become_typed_parameters() -> None:
    found = literal("conf", {"a": 1, "b": {"c": [True]}})
    assert found.members == (
        Param("a", LONG, value=1),
        Param("b", ParamType.MAP, members=(Param("c", ParamType.BOOLEAN_ARRAY, value=(True,)),)),
    )


def test_the_default_parameters_resolve_from_the_clock_alone() -> None:
    found = values(*DEFAULTS, scope=Scope(now_ms=lambda: 1_704_067_199_000))
    assert (found["RUN_DATE"], found["RUN_HOUR"], found["RUN_DATE_MINUS_1"]) == ("20231231", "23", "20231230")
    tokyo = merge(((Layer.DEFAULTS, DEFAULTS), (Layer.TRIGGER, (text("WORKFLOW_CRON_TIMEZONE", "Asia/Tokyo"),))))
    found = values(*tokyo, scope=Scope(now_ms=lambda: 1_704_067_199_000))
    assert (found["TARGET_RUN_DATE"], found["TARGET_RUN_HOUR"]) == ("20240101", "08")


# --- settings, timeouts, loops -------------------------------------------------------------------------------------------


def test_a_setting_that_is_one_reference_keeps_the_values_type() -> None:
    settings = {"count": "${n}", "tables": "${list}", "text": "n=${n}", "deep": [{"k${n}": "${on}"}], "number": 5}
    assert resolve_settings(settings, SCOPE) == {
        "count": 3,
        "tables": ["a", "b"],
        "text": "n=3",
        "deep": [{"k3": True}],
        "number": 5,
    }


def test_timeouts_may_be_parameters() -> None:
    assert resolve_timeout("${n}h", SCOPE, 1.0) == 10800.0
    assert resolve_timeout(None, SCOPE, 5.0) == 5.0
    assert resolve_timeout(2.0, SCOPE, 5.0) == 2.0
    with pytest.raises(ParamError):
        resolve_timeout("${OUT}", SCOPE, 1.0)


def test_a_loop_crosses_its_lists_the_first_fastest() -> None:
    step = ForeachStep(
        id="f",
        loop_params=(
            Param("p", STRING, value="${capture__parts}"),
            Param("h", ParamType.LONG_ARRAY, expression="Util.intsBetween(0, 3, 1)"),
        ),
    )
    loop = resolve_loop(step, SCOPE)
    assert loop.length == 6
    rows = [{name: found.value for name, found in loop.iteration(i).items()} for i in range(6)]
    assert rows[:3] == [
        {"loop_index": 0, "p": 1, "h": 0},
        {"loop_index": 1, "p": 2, "h": 0},
        {"loop_index": 2, "p": 1, "h": 1},
    ]
    assert loop.iteration(0)["p"].type is LONG
    with pytest.raises(IndexError):
        loop.iteration(6)


def test_an_empty_list_means_no_iteration() -> None:
    assert (
        resolve_loop(ForeachStep(id="f", loop_params=(Param("p", ParamType.LONG_ARRAY, value=()),)), SCOPE).length == 0
    )


def test_a_loop_over_what_is_no_list_or_too_long_is_refused() -> None:
    with pytest.raises(ParamError, match="not a list"):
        resolve_loop(ForeachStep(id="f", loop_params=(text("p", "${n}"),)), SCOPE)
    long = Param("i", ParamType.LONG_ARRAY, expression="Util.intsBetween(0, 1000, 1)")
    other = Param("j", ParamType.LONG_ARRAY, expression="Util.intsBetween(0, 1000, 1)")
    with pytest.raises(ParamError, match="1,000,000 iterations"):
        resolve_loop(ForeachStep(id="f", loop_params=(long, other)), SCOPE)


# --- secrets -------------------------------------------------------------------------------------------------------------


def test_secrets_stay_references_through_everything_but_reveal() -> None:
    found = values(text("url", "jdbc:x:${OUT}:$ENV{PW}"))
    assert found == {"url": "jdbc:x:outer:$ENV{PW}"}
    settings = resolve_settings({"env": {"URL": "${url}"}}, Scope(params=found))  # type: ignore[arg-type]
    assert settings == {"env": {"URL": "jdbc:x:outer:$ENV{PW}"}}
    assert list(secrets_in(settings)) == ["PW"]
    assert reveal(settings, {"PW": "s3cret"}, {"PW"}) == {"env": {"URL": "jdbc:x:outer:s3cret"}}


def test_a_secret_that_the_definition_does_not_name_is_not_revealed() -> None:
    from_data = {"row": "$ENV{DB_PASSWORD}"}
    assert reveal(from_data, {"DB_PASSWORD": "s3cret"}, {"OTHER"}) == from_data


def test_a_secret_that_is_not_set_is_an_error_without_its_value() -> None:
    with pytest.raises(MissingSecretError) as caught:
        reveal("$ENV{PW}", {}, {"PW"})
    assert "PW" in str(caught.value)


def test_an_expression_sees_a_secret_only_as_its_reference() -> None:
    assert values(text("pw", "$ENV{PW}"), Param("l", LONG, expression="pw.length()"))["l"] == len("$ENV{PW}")
