"""What the fuzzer throws: random documents and expressions, mutations of good ones, and pieces known to hurt."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

SEEDS = Path(__file__).parent.parent / "unit" / "workflow" / "seeds"
_DEFINITIONS = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.yaml"))]

ESCAPES = (
    "''.__class__.__mro__[1].__subclasses__()",
    "().__class__.__bases__[0]",
    "params.__class__.__init__.__globals__",
    "params.get('x').__class__",
    "name.format(name)",
    "'{0.__class__}'.format('')",
    "String.format('{0.__class__.__init__.__globals__}', name)",
    "String.format('%(x)s', m)",
    "__import__('os').system('id')",
    "eval('1')",
    "exec('1')",
    "getattr(params, 'scope')",
    "lambda: 1",
    "[c for c in ()]",
    "open('/etc/passwd').read()",
    "''.getClass().forName('java.lang.Runtime').getMethod('exec')",
    "Runtime.getRuntime().exec('id')",
    "System.exit(0)",
    "System.getProperty('user.home')",
    "Class.forName('java.lang.System')",
    "new java.io.File('/etc/passwd')",
    "new ProcessBuilder('id').start()",
    "Thread.currentThread().getContextClassLoader()",
    "DateTimeZone.forID('../../../etc/passwd')",
    "DateTimeZone.forID('/etc/passwd')",
    "Util.getClass()",
    "params.getClass().getClassLoader()",
    "x.real.__class__",
    "arr.__len__()",
    "m.__getitem__('a')",
    "m.keys()",
    "params.scope",
    "'a'.join(words)",
    "name.encode('utf-8')",
    "1 .__class__",
    "\\u0065val('1')",
    "'a'.replaceAll('(a+)+$', 'b')",
    "'" + "a" * 50 + "'.split('(a|aa)+$')",
    "Util.intsBetween(0, 9223372036854775807, 1)",
    "Util.dateIntsBetween(10101, 99991231, 1)",
    "big.replace('x', big).replace('x', big)",
    "String.format('%999d%999d%999d', 1, 2, 3)",
    "Math.pow(9e99, 9e99)",
    "-9223372036854775808 / -1",
    "-9223372036854775808 % -1",
    "Math.abs(-9223372036854775808)",
    "new DateTime(9223372036854775807)",
    "new DateTime(0).plusYears(9223372036854775807)",
    "new DateTime(-62135596800000).minusDays(1)",
    "DateTimeFormat.forPattern('" + "y" * 99 + "').print(0)",
    "DateTimeFormat.forPattern('yyyyMMdd').parseDateTime('99999999')",
    "new DateTime(0).withWeekOfWeekyear(53).withWeekyear(1)",
)
GOOD = (
    "1 + 2 * 3 - 4 / 5 % 6",
    "x > 3 && name == 'abc' || !flag",
    "x > y ? 'a' : \"b\\n\\u0041\"",
    "arr[0] + arr.length",
    "m['n'] + m.get('n') + m.size()",
    "params.getFromStep('s', 'MAESTRO_STEP_STATUS') == 'SUCCEEDED'",
    "params.get('x') + params['y']",
    "s__status.equals('OK')",
    "Util.dateIntsBetween(20200226, 20200303, 1)",
    "new DateTime(1569018000000).withZone(DateTimeZone.forID('UTC')).monthOfYear().getAsText();",
    "DateTimeFormat.forPattern('yyyyMMddHH').withZone(DateTimeZone.forID('Europe/Berlin')).parseDateTime('2024033102').getMillis()",
    "String.format('%05d|%s|%.2f|%x', x, name, d, 255)",
    "String.join(',', words)",
    "new long[]{1, 2, x}",
    "'a.b.c'.split('\\.')[1].toUpperCase()",
    "Days.daysBetween(new DateTime(0), new DateTime(RUN_TS)).getDays()",
    "Long.valueOf('12') * Math.max(1, 2)",
    "return (1.5e3 + .5) * 2;",
    "params.containsKey('zz') ? params.get('zz') : 'none'",
)
_ATOMS = (
    "0", "1", "42", "9223372036854775807", "9223372036854775808", "1.5", ".5", "1e308", "1e-320", "0x1F", "007", "1L",
    "true", "false", "null", "x", "y", "d", "name", "flag", "arr", "words", "m", "params", "big", "s__status",
    "'a'", "''", '"b"', '"\\t"', "'20200101'", "'UTC'", "'yyyyMMdd'", "Util", "Math", "String", "DateTime", "unknown_name",
    "new DateTime(0)", "new String[]{}", "DateTimeZone.UTC", "DateTimeConstants.MONDAY", "arr[0]", "m['a']",
)  # fmt: skip
_OPERATORS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||")
_CALLS = (
    "length", "isEmpty", "contains", "substring", "toUpperCase", "trim", "split", "replace", "equals", "compareTo", "charAt",
    "indexOf", "toString", "get", "containsKey", "size", "plusDays", "minusMonths", "getMillis", "getYear", "withZone",
    "withDayOfMonth", "dayOfWeek", "getAsText", "print", "parseDateTime", "format", "join", "valueOf", "min", "max", "pow",
    "round", "abs", "dateIntsBetween", "intsBetween", "tsToDateInt", "incrementDateInt", "dateIntToTs", "daysBetween",
    "getFromStep", "getFromSignal", "getOrDefault", "replaceAll", "concat", "escape", "__class__", "getClass",
)  # fmt: skip
_TOKENS = (*_ATOMS, *_OPERATORS, "(", ")", "[", "]", "{", "}", "?", ":", ",", ".", ";", "!", "return", "new", "//", "/*", "*/", "'", '"', "\\", "=", "&", "|", "$", "#", "@", "\n", "\t", "\x00", "é", "字", "\u202e", "😀")  # fmt: skip


def expression_case(dice: random.Random) -> str:
    roll = dice.random()
    if roll < 0.5:
        return _expression(dice, dice.randint(0, 5))
    if roll < 0.7:
        return _mutated(dice, dice.choice((*GOOD, *ESCAPES)), _TOKENS)
    if roll < 0.8:
        return dice.choice(ESCAPES)
    if roll < 0.95:
        return " ".join(dice.choice(_TOKENS) for _ in range(dice.randint(1, 25)))
    return _giant_expression(dice)


def _expression(dice: random.Random, depth: int) -> str:
    if depth <= 0:
        return dice.choice(_ATOMS)

    def inner() -> str:
        return _expression(dice, depth - dice.randint(1, 2))

    kind = dice.randint(0, 8)
    if kind <= 2:
        return f"{inner()} {dice.choice(_OPERATORS)} {inner()}"
    if kind == 3:
        return f"({inner()})"
    if kind == 4:
        return f"{inner()} ? {inner()} : {inner()}"
    if kind == 5:
        return f"{dice.choice('!-+')}{inner()}"
    if kind == 6:
        return f"{inner()}[{inner()}]"
    arguments = ", ".join(inner() for _ in range(dice.randint(0, 3)))
    receiver = dice.choice(_ATOMS) if dice.random() < 0.7 else f"({inner()})"
    return f"{receiver}.{dice.choice(_CALLS)}({arguments})"


def _giant_expression(dice: random.Random) -> str:
    size = dice.choice((50, 70, 1000, 5000, 20_000))
    return dice.choice(
        (
            "(" * size + "1" + ")" * size,
            "!" * size + "true",
            "-" * size + "1",
            "1 + " * size + "1",
            "x" + ".toString()" * size,
            "'" + "a" * size + "'",
            "x > 1 && " * size + "true",
            "arr[" * size + "0" + "]" * size,
            "true ? " * size + "1" + " : 2" * size,
            "9" * size,
            "1." + "9" * size,
            "0x" + "f" * size,
            "/*" * size,
            "big + " * min(size, 2000) + "big",
            "Math.max(" * size + "1" + ", 1)" * size,
        )
    )


_TEXT_PIECES = ("${x}", "$${x}", "$", "$$", "$$$", "${", "}", "${unknown}", "${s__status}", "$FILE{a.sql}", "$S3{b/k}", "$S3{no}", "$ENV{HOME}", "${m}", "${arr}", "${big}", "{0.__class__}", "%(x)s", "${x:-y}", "${ x }", "text", "\n", "é")  # fmt: skip


def text_case(dice: random.Random) -> str:
    return "".join(dice.choice(_TEXT_PIECES) for _ in range(dice.randint(0, dice.choice((5, 50, 5000)))))


def _mutated(dice: random.Random, text: str, pieces: Sequence[str]) -> str:
    for _ in range(dice.randint(1, 4)):
        at = dice.randint(0, len(text))
        end = min(len(text), at + dice.randint(0, 8))
        how = dice.randint(0, 3)
        if how == 0:
            text = text[:at] + text[end:]
        elif how == 1:
            text = text[:at] + dice.choice(pieces) + text[at:]
        elif how == 2:
            text = text[:at] + dice.choice(pieces) + text[end:]
        else:
            text = text[:at] + text[at:end] * dice.randint(2, 4) + text[end:]
    return text


# --- documents -----------------------------------------------------------------------------------------------------------

_YAML_PIECES = ("\t", "  ", "\n", "- ", ": ", ":", "&a ", "*a", "<<: *a", "!!python/object/apply:os.system ['id']", "!!int ", "!x ", "|", ">", "%YAML 1.1\n---\n", "---\n", "...\n", "{", "}", "[", "]", "'", '"', "#", "? ", "null", "~", "true", "1e999", ".nan", ".inf", "0o17", "99999999999999999999", "-0", "''", "\x00", "\ufeff", "\u2028", "\x85", "é", "😀", "IF x > 1 THEN end", "OTHERWISE end", "a -> b -> a", "${x}", "'!n<long>(constant)': 1 + 1", "timout: 3")  # fmt: skip
_KEYS = ("id", "name", "description", "owner", "tags", "timeout", "retry", "params", "jobs", "steps", "dag", "type", "spark", "shell", "http", "python", "ip_capture", "ip_commit", "job", "subworkflow", "foreach", "while", "workflow_id", "failure_mode", "transition", "depends_on", "signal_dependencies", "signal_outputs", "watermark_dependencies", "loop_params", "ranges", "concurrency", "run_strategy", "workflow_concurrency", "freshness", "alerting", "Trigger", "cron", "every", "incremental", "signal", "watermark", "script", "write", "table", "keys", "pattern", "source_tables", "capture_step", "x", "TARGET", "'!e<long>'", "!e", "m<pmap>", "a<map>", "p(provided)", "bad<type>", "timout", "ID", "sourceTable", "script")  # fmt: skip
_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 2**63, 2**63 - 1, 1.5, float("inf"), "", "a", "b", "job.1", "a -> b", "sequential", "parallel", "NoOp", "Spark", "Shell", "ICDC", "IpCapture", "IpCommit", "Http", "IGNORE_FAILURE", "15m", "2h 30min", "@daily", "0 3 * * *", "${x}", "${a__p}", "$ENV{PW}", "$FILE{a.sql}", "IF x > 1 THEN b", "OTHERWISE b", "1 + 1", "params.get('x')", "db.t", "append", "ICDC", "select 1", "select.sql", "Europe/Berlin", "🙂", "\u202eabc", "x" * 300)  # fmt: skip


def yaml_case(dice: random.Random) -> str | bytes:
    roll = dice.random()
    if roll < 0.45:
        return _mutated_definition(dice)
    if roll < 0.85:
        return _random_definition(dice)
    if roll < 0.93:
        return "".join(dice.choice(_YAML_PIECES) for _ in range(dice.randint(1, 60)))
    return _hostile_document(dice)


def _mutated_definition(dice: random.Random) -> str | bytes:
    text = dice.choice(_DEFINITIONS)
    how = dice.randint(0, 4)
    if how == 0:
        return _mutated(dice, text, _YAML_PIECES)
    lines = text.split("\n")
    if how == 1:
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(lines))
            lines[at] = dice.choice((lines[at] + lines[at], "", " " + lines[at], lines[at][1:], dice.choice(lines)))
        return "\n".join(lines)
    if how == 2:
        other = dice.choice(_DEFINITIONS).split("\n")
        return "\n".join(lines[: dice.randrange(len(lines))] + other[dice.randrange(len(other)) :])
    if how == 3:
        words = text.split(" ")
        for _ in range(dice.randint(1, 5)):
            words[dice.randrange(len(words))] = str(dice.choice(_VALUES))
        return " ".join(words)
    data = bytearray(text.encode())
    for _ in range(dice.randint(1, 6)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _random_definition(dice: random.Random) -> str:
    """A document of the right shape with wrong things in it."""
    names = [f"{dice.choice('abcxyz')}{i}" for i in range(dice.randint(0, 6))] + ["a", "b"]
    body: dict[str, Any] = {"id": "fuzz.flow", "jobs": [_random_item(dice, name, 2) for name in names]}
    if dice.random() < 0.7:
        body["dag"] = _random_dag(dice, names)
    for _ in range(dice.randint(0, 4)):
        body[dice.choice(_KEYS)] = _random_value(dice, 3)
    document: dict[str, Any] = {dice.choice(("Workflow", "workflow")): body}
    if dice.random() < 0.4:
        document["Trigger"] = dice.choice(
            (
                {"cron": dice.choice(_VALUES), dice.choice(_KEYS): _random_value(dice, 1)},
                {
                    "incremental": {
                        dice.choice(("tables", "min_rows", "at_most_every", "partitions", "x")): _random_value(dice, 2)
                    }
                },
                {"signal": _random_value(dice, 2)},
                {"every": dice.choice(_VALUES)},
                [{"cron": "@daily"}, _random_value(dice, 2)],
            )
        )
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=dice.random() < 0.5)


def _random_item(dice: random.Random, name: str, depth: int) -> Any:
    kind = dice.choice(("job", "job", "job", "subworkflow", "foreach", "flat", "odd"))
    if kind == "odd":
        return _random_value(dice, 2)
    base: dict[str, Any] = {"id": name}
    for _ in range(dice.randint(0, 2)):
        base[dice.choice(_KEYS)] = _random_value(dice, 2)
    if kind == "foreach" and depth > 0:
        inner = [f"{name}{letter}" for letter in "pq"]
        base |= {
            "params": {"v": dice.choice(([1, 2], ["a"], "${x}", 3))},
            "jobs": [_random_item(dice, n, depth - 1) for n in inner],
        }
        base["dag"] = _random_dag(dice, inner)
        return {"foreach": base}
    if kind == "subworkflow":
        return {"subworkflow": base}
    step_type = dice.choice(("NoOp", "Spark", "Shell", "Http", "IpCapture", "IpCommit", "ICDC", "Sprak"))
    settings = {
        "Spark": {"script": "select ${x}", "write": {"table": "t", dice.choice(_KEYS): _random_value(dice, 1)}},
        "Shell": {"script": dice.choice(_VALUES)},
        "Http": {"url": "http://x", "body": _random_value(dice, 2)},
        "IpCapture": {"source_tables": dice.choice(("t", ["t", "u"], 5))},
        "IpCommit": {"capture_step": dice.choice(("a", "b", ["a", "b"], name))},
    }.get(step_type)
    key = {"IpCapture": "ip_capture", "IpCommit": "ip_commit"}.get(step_type, step_type.lower())
    job = {**base, "type": step_type, **({key: settings} if settings and dice.random() < 0.9 else {})}
    if step_type == "ICDC":
        job["sourceTable"] = dice.choice(("db.t", None, ["a"]))
    return {"job": job} if kind == "job" else job


def _random_dag(dice: random.Random, names: list[str]) -> Any:
    def step() -> str:
        return dice.choice(names)

    return dice.choice(
        (
            "sequential",
            "parallel",
            [f"{step()} -> {step()}" for _ in range(dice.randint(0, 6))],
            {step(): [f"IF x > {i} THEN {step()}" for i in range(2)] + [f"OTHERWISE {step()}"]},
            {step(): {"IF x == 1": f"{step()} -> {step()}", "OTHERWISE": step()}},
            {step(): _random_value(dice, 2)},
            _random_value(dice, 1),
        )
    )


def _random_value(dice: random.Random, depth: int) -> Any:
    roll = dice.random()
    if depth <= 0 or roll < 0.6:
        return dice.choice(_VALUES)
    if roll < 0.8:
        return [_random_value(dice, depth - 1) for _ in range(dice.randint(0, 3))]
    return {dice.choice(_KEYS): _random_value(dice, depth - 1) for _ in range(dice.randint(0, 3))}


def _hostile_document(dice: random.Random) -> str | bytes:
    size = dice.choice((10, 100, 1000, 10_000, 100_000))
    many = "\n".join(f"  k{i}: v" for i in range(min(size, 20_000)))
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    random_bytes = bytes(dice.randrange(256) for _ in range(min(size, 1000)))
    return dice.choice(
        (
            "[" * size,
            "{" * size,
            "- " * size,
            "? " * size,
            "Workflow: " + "[" * size + "]" * size,
            "Workflow: {a: " * size,
            bomb + "Workflow: *a29",
            "Workflow: &w {id: x, jobs: *w}",
            "Workflow:\n  id: x\n" + many,
            "Workflow: {id: x, jobs: [" + "{job: {id: a, type: NoOp}}," * min(size, 10_000) + "]}",
            "Workflow:\n  id: x\n  jobs:\n"
            + "".join(f"    - job: {{id: s{i}, type: NoOp}}\n" for i in range(min(size, 1000)))
            + "  dag: sequential\n",
            "a: " + "x" * size,
            '"' + "\\" * size,
            "'" * size,
            "&a " * size,
            "*a " * size,
            "!" * size,
            "%" * size,
            "\n" * size + "Workflow: 1",
            ":" * size,
            "Workflow: " + "9" * size,
            "".join(dice.choice(string.printable) for _ in range(min(size, 5000))),
            random_bytes,
            b"\xff\xfe" + "Workflow: {}".encode("utf-16-le"),
            b"Workflow: \x80",
            b"x" * (2 * 1024 * 1024),
        )
    )
