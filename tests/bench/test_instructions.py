"""Counting instructions: the output of callgrind is read correctly, and background work does not change the count."""

import pytest

from bench.instructions.callgrind import Count, Function, count_of, parse_functions, parse_total

DUMP = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 4711
cmd:  python restante serve
part: 2

desc: Timerange: Basic block 0 - 141419815
desc: Trigger: dump
positions: line
events: Ir

fn=(1) totals
16 3
+1 4

totals: 26428123
"""

ANNOTATED = """\
--------------------------------------------------------------------------------
Profile data file 'dump.1' (creator: callgrind-3.19.0)
--------------------------------------------------------------------------------
Timerange: Basic block 0 - 141419815
Events recorded:  Ir
Thresholds:       90

--------------------------------------------------------------------------------
Ir
--------------------------------------------------------------------------------
2,000 (100.0%)  PROGRAM TOTALS

--------------------------------------------------------------------------------
Ir               file:function
--------------------------------------------------------------------------------
400 (20.00%)  Python/ceval.c:_PyEval_EvalFrameDefault [/usr/lib/libpython3.11.so.1.0]
300 (15.00%)  ???:uv__io_poll [/venv/uvloop/loop.so]
200 (10.00%)  Python/ceval.c:_PyEval_EvalFrameDefault'2 [/usr/lib/libpython3.11.so.1.0]
100 ( 5.00%)  ./Include/object.h:_PyEval_EvalFrameDefault
 20 ( 1.00%)  Objects/stringlib/fastsearch.h:find_internal
"""


def test_total_of_a_dump_is_read() -> None:
    assert parse_total(DUMP) == 26_428_123


def test_incomplete_dump_is_refused() -> None:
    with pytest.raises(ValueError, match="totals"):
        parse_total(DUMP.partition("totals: ")[0])


def test_rows_of_a_function_are_added_up() -> None:
    assert parse_functions(ANNOTATED) == [
        Function("_PyEval_EvalFrameDefault", 0.35, "libpython3.11.so.1.0"),
        Function("uv__io_poll", 0.15, "loop.so"),
        Function("find_internal", 0.01, ""),
    ]


def test_output_without_a_total_is_refused() -> None:
    with pytest.raises(ValueError, match="PROGRAM TOTALS"):
        parse_functions("")


def test_background_work_in_most_windows_does_not_change_the_count() -> None:
    quiet, busy = [40_000, 40_400], [41_000, 90_000, 52_000]
    assert count_of(quiet + busy, 10) == Count(4_000.0, 4_040.0)
    assert count_of(quiet + busy, 10).spread == pytest.approx(0.01)
