"""The line of a log that says what went wrong, and logs as plain text."""

from __future__ import annotations

import pytest

from icefloe.service.failures import error_line, plain_text


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("start\nTraceback (most recent call last):\n  File x\nValueError: no such day\n", "ValueError: no such day"),
        (
            "java.lang.IllegalStateException: closed\n\tat a.B.c\nCaused by: x\n",
            "java.lang.IllegalStateException: closed",
        ),
        ("KeyError: 1\nDuring handling, another happened\nmy.mod.MyError: two\n", "my.mod.MyError: two"),
        ("copying\ncp: cannot stat 'x': Permission denied\nbye\n", "cp: cannot stat 'x': Permission denied"),
        ("\x1b[31mfatal: \x1b[1mrepository\x1b[0m gone\n", "fatal: repository gone"),
        ("all went well\n", None),
        ("", None),
    ],
)
def test_the_line_that_names_the_error(log: str, line: str | None) -> None:
    assert error_line(log) == line


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;window title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"),
        ("10 %\r50 %\r100 %\ndone\r\n", "100 %\ndone\n"),
        ("a\x00b\x07c\td", "abc\td"),
        ("\u202eexe.gnp\u2066", "exe.gnp"),
        ("ünïcode 漢字 🧊", "ünïcode 漢字 🧊"),
        ("\x1b", ""),
    ],
)
def test_a_log_as_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain
