#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot.py WRITER: what WRITER says is live stands in its pickle and its JSON, in the opcodes and
with the invariants that the viewer of PyTorch's memory snapshots needs."""
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

OPCODES = set('''PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
BINUNICODE SHORT_BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 TUPLE LIST DICT
APPEND APPENDS SETITEM SETITEMS BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE'''.split())


def check_opcodes(data):
    for op, arg, _ in pickletools.genops(data):
        assert op.name in OPCODES, op.name
        assert op.name != 'PROTO' or arg <= 4, arg
    with open(os.devnull, 'w', encoding='utf-8') as nowhere:
        pickletools.dis(data, out=nowhere)  # checks the stack at each opcode


def check_segments(snapshot, live):
    found = {}
    for segment in snapshot['segments']:
        blocks = segment['blocks']
        assert sum(b['size'] for b in blocks) == segment['total_size']
        at = segment['address']
        for block in blocks:
            assert block['address'] == at, (block, at)
            at += block['size']
            if block['state'] == 'active_allocated':
                frames = block['frames']
                found[block['address']] = (block['requested_size'], frames[0]['line'])
                assert frames[0]['filename'] == 'caf\u00e9 "quoted"\t.py', frames
                # What is no UTF-8 is shown as question marks, one a byte.
                assert frames[0]['name'] == 'latin ?, cut ??, long ???', frames
        active = sum(b['size'] for b in blocks if b['state'] == 'active_allocated')
        assert active == segment['allocated_size']
    assert found == live, (len(found), len(live))


def check_trace(snapshot, live):
    alive, actions = set(), set()
    for entry in snapshot['device_traces'][0]:
        actions.add(entry['action'])
        if entry['action'] == 'alloc':
            assert entry['addr'] not in alive
            alive.add(entry['addr'])
        elif entry['action'] == 'free_requested':
            alive.remove(entry['addr'])
        elif entry['action'] == 'oom':
            assert 'device_free' in entry
    assert alive == set(live)
    assert {'alloc', 'free_requested', 'free_completed', 'segment_map', 'oom'} <= actions, actions
    times = [e['time_us'] for e in snapshot['device_traces'][0]]
    assert times == sorted(times)


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, 'x.pickle'), os.path.join(folder, 'x.json')]
        out = subprocess.run([sys.argv[1], *paths], stdout=subprocess.PIPE, check=True).stdout
        live = {int(a): (int(n), int(s)) for a, n, s in (x.split() for x in out.split(b'\n') if x)}
        assert len(live) == 750
        data = open(paths[0], 'rb').read()
        check_opcodes(data)
        pickled = pickle.loads(data)
        plain = json.load(open(paths[1], encoding='utf-8'))
        for snapshot in (pickled, plain):
            check_segments(snapshot, live)
            check_trace(snapshot, live)
            assert 'limit' in snapshot['allocator_settings']['PYTORCH_CUDA_ALLOC_CONF']
        assert isinstance(pickled['segments'][0]['segment_pool_id'], tuple)
    print('the snapshot shows 750 live blocks, as a pickle and as JSON')


main()
