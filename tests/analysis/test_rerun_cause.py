"""Likely cause of a difference between a run and its rerun."""

import pytest
from published_lab import PROVENANCE

from study.analysis.rerun import cause


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"instructions": None}, {"instructions": "AVX2"}, "instruction set not recorded → AVX2"),
        ({}, {"git_commit": "b" * 40}, "commit aaaaaaaaaaaa → bbbbbbbbbbbb"),
        ({"deterministic": False}, {}, "operations that are not deterministic"),
        ({"device": "a GPU", "deterministic": False}, {}, "device a GPU → "),
        ({}, {"git_dirty": True}, "code that is not committed"),
    ],
)
def test_the_cause_is_what_the_records_do_not_share(tiny, before, now, expected):
    record = tiny.record(tiny.cells["score=dot", 1], 80.0)
    usual = PROVENANCE.model_copy(update={"git_commit": "a" * 40, "git_dirty": False, "deterministic": True})
    both = [record.model_copy(update={"provenance": usual.model_copy(update=facts)}) for facts in (before, now)]
    assert cause(*both).startswith(expected)
