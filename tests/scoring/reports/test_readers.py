"""Readers of runners' reports: each format's results, and what is no whole report."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.reports import Report, ReportUnreadable, read_report

JUNIT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" tests="6">
<testcase classname="tests.test_a" name="test_one" time="0.1"/>
<testcase classname="tests.test_a.TestB" name="test_two[a b - \xc3\xa9]"><failure>&lt;1&gt;</failure></testcase>
<testcase classname="tests.test_a" name="test_three"><skipped type="pytest.xfail" message=""/></testcase>
<testcase classname="" name="tests.test_c"><error message="collection failure">E</error></testcase>
<testcase classname="tests.test_a" name="test_four"/>
<testcase classname="tests.test_a" name="test_four"><error/></testcase>
</testsuite></testsuites>"""
GO = b"""{"Action":"start","Package":"m/p"}
{"Action":"run","Package":"m/p","Test":"TestA"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"x\\n"}
{"Action":"run","Package":"m/p","Test":"TestA/sub_1"}
{"Action":"pass","Package":"m/p","Test":"TestA/sub_1","Elapsed":0.01}
{"Action":"pass","Package":"m/p","Test":"TestA","Elapsed":0.02}
{"Action":"run","Package":"m/p","Test":"TestB"}
{"Action":"fail","Package":"m/p","Test":"TestB","Elapsed":0}
{"Action":"run","Package":"m/p","Test":"TestC"}
{"Action":"skip","Package":"m/p","Test":"TestC","Elapsed":0}
{"Action":"run","Package":"m/p","Test":"TestPanics"}
{"Action":"fail","Package":"m/p","Elapsed":0.03}
"""
CARGO = b"""   Compiling x v0.1.0
{ "type": "suite", "event": "started", "test_count": 3 }
{ "type": "test", "event": "started", "name": "tests::adds" }
{ "type": "test", "name": "tests::adds", "event": "ok" }
{ "type": "test", "name": "tests::fails", "event": "failed", "stdout": "thread panicked" }
{ "type": "test", "name": "tests::slow", "event": "ignored" }
{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 1 }
{ "type": "suite", "event": "started", "test_count": 0 }
{ "type": "suite", "event": "ok", "passed": 0, "failed": 0, "ignored": 0 }
"""
JEST = {
    "numTotalTests": 3,
    "success": False,
    "testResults": [
        {"name": "/workspace/a.test.js", "assertionResults": [
            {"fullName": "adds numbers", "status": "passed"},
            {"ancestorTitles": ["group"], "title": "divides", "status": "failed"},
            {"fullName": "later", "status": "todo"}]},
        {"name": "/workspace/broken.test.js", "status": "failed", "assertionResults": []},
    ],
}  # fmt: skip
DASHBOARD = b"""<?xml version="1.0"?><Site BuildName="x"><Testing>
<TestList><Test>./a</Test></TestList>
<Test Status="passed"><Name>adds</Name><Results><Measurement><Value>Name</Value></Measurement></Results></Test>
<Test Status="failed"><Name>fails</Name></Test><Test Status="notrun"><Name>off</Name></Test></Testing></Site>"""
CTEST = b"""<testsuite name="(empty)" tests="3"><testcase name="adds" classname="adds" status="run"/>
<testcase name="fails" classname="fails" status="fail"><failure message=""/></testcase>
<testcase name="off" classname="off" status="disabled"/></testsuite>"""
TAP = b"""TAP version 14
1..6
ok 1 - adds numbers
not ok 2 - divides # by zero
  ---
  message: no
  ...
    ok 1 - an indented subtest
ok 3 - later # SKIP not here
not ok 4 - hoped for # TODO some day
ok 5
ok 6 - ends \xff
# a comment
"""
WHOLE: list[tuple[str, bytes, dict[str, str]]] = [
    ("pytest", JUNIT, {
        "tests.test_a::test_one": "passed", "tests.test_a.TestB::test_two[a b - é]": "failed",
        "tests.test_a::test_three": "skipped", "::tests.test_c": "failed", "tests.test_a::test_four": "failed"}),
    ("go", GO, {"m/p::TestA/sub_1": "passed", "m/p::TestA": "passed", "m/p::TestB": "failed", "m/p::TestC": "skipped",
                "m/p::TestPanics": "failed"}),
    ("cargo", CARGO, {"tests::adds": "passed", "tests::fails": "failed", "tests::slow": "skipped"}),
    ("jest", json.dumps(JEST).encode(), {
        "a.test.js::adds numbers": "passed", "a.test.js::group divides": "failed", "a.test.js::later": "skipped"}),
    ("ctest", DASHBOARD, {"adds": "passed", "fails": "failed", "off": "skipped"}),
    ("ctest", CTEST, {"adds": "passed", "fails": "failed", "off": "skipped"}),
    ("tap", TAP, {"adds numbers": "passed", "divides # by zero": "failed", "later": "skipped", "hoped for": "skipped",
                  "#5": "passed", "ends \\xff": "passed"}),
]  # fmt: skip
RUNNERS = ("pytest", "go", "cargo", "jest", "ctest", "tap", "script")


def read(runner: str, content: bytes) -> Report:
    return read_report(runner, content, "/workspace")


@pytest.mark.parametrize(("runner", "content", "expected"), WHOLE)
def test_a_whole_report_is_read(runner: str, content: bytes, expected: dict[str, str]) -> None:
    assert read(runner, content).tests == expected


@pytest.mark.parametrize(("runner", "content", "_"), WHOLE)
def test_half_a_report_is_none(runner: str, content: bytes, _: object) -> None:
    """Cut anywhere before its last word, no report gives a result."""
    for cut in range(0, len(content.rstrip()) - 1, 7):
        if runner == "tap" and content[:cut].count(b"ok") >= TAP.count(b"\nok") + TAP.count(b"\nnot ok"):
            continue  # only a comment, or the end of the last name, is missing
        if runner == "cargo" and content[:cut].endswith(b"\n") and b'"event": "failed", "passed"' in content[:cut]:
            continue  # cut between two whole suites
        with pytest.raises(ReportUnreadable):
            read(runner, content[:cut])


@pytest.mark.parametrize("runner", RUNNERS)
@given(content=st.binary(max_size=200))
def test_junk_never_passes(runner: str, content: bytes) -> None:
    try:
        report = read(runner, content)
    except ReportUnreadable:
        return
    assert runner in ("tap", "script")
    assert not report.tests or b"1.." in content


@pytest.mark.parametrize(
    "document",
    [
        b'<!DOCTYPE t [<!ENTITY a "b">]><testsuite><testcase name="x" classname="&a;"/></testsuite>',
        b'<!DOCTYPE t SYSTEM "file:///etc/passwd"><testsuite/>',
        b"<?php x?><testsuite/>",
        b"<html><testcase name='x'/></html>",
        b'<testsuite><testcase classname="x"/></testsuite>',
        b'<testsuite><testcase name="a"><testcase name="b"/></testcase></testsuite>',
        b"<testsuite>" * 40 + b"</testsuite>" * 40,
        b'<testsuite><testcase name="' + b"x" * 9000 + b'"/></testsuite>',
    ],
    ids=["entity", "external", "instruction", "other root", "no name", "nested", "deep", "long id"],
)
def test_xml_that_no_runner_writes_is_refused(document: bytes) -> None:
    with pytest.raises(ReportUnreadable):
        read("pytest", document)


def test_text_and_properties_of_a_test_are_no_results() -> None:
    document = b"""<testsuite><testcase name="a" classname="t"><system-out>&lt;failure/&gt;</system-out>
    <properties><property name="failure" value="x"/><failure/></properties></testcase></testsuite>"""
    assert read("pytest", document).tests == {"t::a": "passed"}


def test_a_test_named_twice_has_its_worst_result_and_is_remembered() -> None:
    assert read("pytest", JUNIT).repeated == {"tests.test_a::test_four"}
    twice = b'<testsuite><testcase name="a"/><testcase name="a"/></testsuite>'
    assert read("pytest", twice).repeated == set()


@pytest.mark.parametrize(
    ("runner", "content"),
    [
        ("tap", b"ok 1\n"),
        ("tap", b"1..2\nok 1\n"),
        ("tap", b"1..1\nok 1\n1..1\n"),
        ("tap", b"1..1\nok 1\nBail out! no database\n"),
        ("go", b'{"Action":"start","Package":"p"}\n'),
        ("go", b""),
        ("go", b"panic: x\n"),
        ("go", b'{"Action":"pass","Package":"p"}\n{"Action":"pass","Action":"fail","Package":"p"}\n'),
        ("cargo", b""),
        ("cargo", b'{"type":"suite","event":"started","test_count":2}\n{"type":"suite","event":"ok"}\n'),
        ("cargo", b'{"type":"suite","event":"started"}\n'),
        ("jest", b"{}"),
        ("jest", b'{"numTotalTests": 2, "testResults": []}'),
        ("jest", b'{"numTotalTests": 1, "testResults": [{"name": "a", "assertionResults": '
                 b'[{"fullName": "x", "status": "?"}]}]}'),
        ("ctest", b'<Site><Testing><Test Status="odd"><Name>x</Name></Test></Testing></Site>'),
        ("ctest", b'<Site><Testing><Test Status="passed"></Test></Testing></Site>'),
    ],
)  # fmt: skip
def test_what_a_format_cannot_say_is_refused(runner: str, content: bytes) -> None:
    with pytest.raises(ReportUnreadable):
        read(runner, content)


@pytest.mark.parametrize(
    ("content", "reward"),
    [
        (b"1", Fraction(1)), (b"1.0\n", Fraction(1)), (b" 0 ", Fraction(0)), (b"0.1", Fraction(1, 10)),
        (b'{"reward": 1}', Fraction(1)), (b'{"reward": 0.25, "other": 1}', Fraction(1, 4)),
        (b'{"accuracy": 1.0}', Fraction(1)),
    ],
)  # fmt: skip
def test_a_reward_is_exact(content: bytes, reward: Fraction) -> None:
    assert read("script", content).reward == reward


@pytest.mark.parametrize(
    "content",
    [
        b"", b"nan", b"inf", b"-0.5", b"1.5", b"1 1", b"passed", b"1e9999", b"0x1", b"\xff", b"{}",
        b'{"reward": NaN}', b'{"reward": "1"}', b'{"reward": true}', b'{"a": 1, "b": 0}',
        b'{"reward": 1, "reward": 0}', b"[1]", b"1" * 70000,
    ],
)  # fmt: skip
def test_what_is_no_reward_is_refused(content: bytes) -> None:
    with pytest.raises(ReportUnreadable):
        read("script", content)
