"""Stored runs answer as decoded ones do, and a chain without its beginning as the whole one."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ModelMirror, Slot, mirrors, slots
from mmtool.translation.block_codec import encode_block
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.stored_runs import StoredRuns, stored_block
from mmtool.translation.translate import translate, translate_back
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

_COLUMN = np.arange(-2, 90)


def stored(mirror: ModelMirror):
    """The map of a mirror as a reader of the offset-runs topic has it."""
    mirror.flush()
    return join_blocks(stored_block(encode_block(block)) for block in mirror.stored.values())


@given(mirrors())
def test_each_lookup_finds_in_stored_runs_what_it_finds_in_decoded_ones(mirror):
    ours, plain = stored(mirror).runs, mirror.partition_map().runs
    assert isinstance(ours, StoredRuns) == (len(plain) > 0)
    for offset in _COLUMN.tolist():
        assert ours.find_forward(offset) == plain.find_forward(offset)
        assert ours.find_reverse(offset) == plain.find_reverse(offset)
        assert ours.around(offset) == plain.around(offset)
        assert ours.between(offset, offset + 9) == plain.between(offset, offset + 9)
    for name in ("find_forward_many", "find_reverse_many"):
        (answers, found), (wanted, there) = (getattr(of, name)(_COLUMN) for of in (ours, plain))
        assert (found == there).all()
        assert (answers[found] == wanted[found]).all()
    for name in ("records_below_many", "records_below_downstream_many"):
        assert (getattr(ours, name)(_COLUMN) == getattr(plain, name)(_COLUMN)).all()
    assert (ours.records, ours) == (plain.records, plain)


@given(mirrors())
def test_a_stored_map_is_the_decoded_one_also_in_another_process(mirror):
    ours, plain = pickle.loads(pickle.dumps(stored(mirror))), mirror.partition_map()  # noqa: S301 - our own bytes
    assert (ours, len(ours.runs) > 0) == (plain, len(plain.runs) > 0)
    if len(plain.runs):
        ends = ours.runs.first, ours.runs.upstream_end, ours.runs.downstream_end
        assert ends == (plain.runs.first, plain.runs.upstream_end, plain.runs.downstream_end)


def test_a_lookup_decodes_the_block_that_has_the_answer_and_no_other(monkeypatch):
    decoded = []
    mirror = ModelMirror([Slot.RECORD, Slot.MARKER] * 40, MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    mirror.ship(80)
    known = stored(mirror)
    part = StoredRuns._part
    monkeypatch.setattr(
        StoredRuns, "_part", lambda self, number: decoded.append(number) or part(self, number)
    )
    assert known.runs.find_forward(UpstreamOffset(40)) == 20
    assert len(decoded) == 1


def test_runs_that_do_not_fit_their_header_are_refused_where_they_are_looked_up():
    runs = StoredRuns.of(b"\x05\x07\x03", 1, downstream_end=11)
    with pytest.raises(UnreadableStateError, match="target end is 11, but its last run ends at 10"):
        runs.find_forward(UpstreamOffset(5))
    with pytest.raises(UnreadableStateError, match="invariant A"):
        StoredRuns.of(b"\x05\x07\x00", 1, downstream_end=7).find_forward(UpstreamOffset(5))


@given(slots(20), st.integers(1, 3), st.integers(0, 40), st.integers(0, 40))
def test_blocks_whose_records_both_logs_have_deleted_are_not_missed(log, max_runs, up, down):
    """What an owner removes (`mmtool.replication.ownership.old_runs`): no answer is another one without it."""
    log = [Slot.RECORD, Slot.MARKER] * 8 + log
    mirror = ModelMirror(log, MirrorStart(UpstreamOffset(0), DownstreamOffset(3)), max_runs=max_runs)
    mirror.ship(len(log))
    whole = mirror.partition_map()
    chain = [mirror.stored[key] for key in sorted(mirror.stored)]
    source = replace(mirror.source_log(), log_start=UpstreamOffset(min(up, len(log))))
    target = mirror.target_log(min(3 + down // 2, mirror.target_end))
    while len(chain) > 1 and (
        chain[0].tail.upstream_frontier <= source.log_start
        and chain[0].tail.downstream_end.position <= target.log_start
    ):
        del chain[0]
    rest = join_blocks(chain)
    for offset in range(len(log) + 2):
        commit = UpstreamOffset(offset)
        answer = translate(whole, commit, target=target, source=source)
        assert translate(rest, commit, target=target, source=source) == answer
    for offset in range(mirror.target_end + 2):
        read = DownstreamOffset(offset)
        answer = translate_back(whole, read, target=target, source=source)
        assert translate_back(rest, read, target=target, source=source) == answer
