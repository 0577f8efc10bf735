#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of corpus/: valid inputs, and those that are wrong in one place. What make fuzz finds is put beside them."""
import gzip
import json
import pathlib
import pickle
import struct

corpus = pathlib.Path(__file__).parent / "corpus"


def put(target, **inputs):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in inputs.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def npy_around(text, data, version=1, length=None):
    text += "\n"
    length = len(text) if length is None else length
    number = struct.pack("<H" if version == 1 else "<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + number + text.encode() + data


def npy(descr, shape, data, version=1, order="False"):
    return npy_around(f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}", data, version)


rest = "'descr': '|u1', 'fortran_order': False, "
put("npy",
    bytes_2d=npy("|u1", "(3, 2)", b"abcdef"), bools=npy("|b1", "(2,)", b"\1\0"), halves=npy("<f2", "(2,)", bytes(4)),
    floats_v2=npy("<f4", "(2, 1, 1)", bytes(8), 2), doubles_v3=npy("<f8", "(1,)", bytes(8), 3), none=npy("<i2", "(0, 4)", b""),
    longs=npy("<u8", "(1, 1)", bytes(8)), any_order=npy_around("{'shape':(2,),'descr':'<i4','fortran_order':False}", bytes(8)),
    objects=npy("|O", "(1,)", b"x"), structured=npy_around("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)),
    big_endian=npy(">f4", "(1,)", bytes(4)), fortran=npy("<f4", "(1, 2)", bytes(8), order="True"), scalar=npy("<f8", "()", bytes(8)),
    negative=npy("|u1", "(-8,)", bytes(8)), empty_samples=npy("|u1", "(8, 0)", b""), wraps=npy("<f8", "(2305843009213693953,)", bytes(8)),
    wraps_2d=npy("<f8", "(4294967296, 4294967296)", bytes(8)), too_wide=npy("|u1", "(18446744073709551616,)", b"x"),
    deep=npy("|u1", "(" + "1, " * 65 + ")", b"x"), as_deep_as_can_be=npy("|u1", "(" + "1, " * 64 + ")", b"x"),
    long_header=npy_around("{" + rest + "'shape': (1,)}", b"x", 2, 0xffffffff), no_end=npy_around("{" + rest + "'shape': (1,", b"x"),
    twice=npy_around("{" + rest + rest + "'shape': (1,)}", b"x"), unknown_key=npy_around("{" + rest + "'extra': 1}", b""),
    trailing=npy("|u1", "(1,)", b"xx"), short=npy("<i8", "(2,)", bytes(15)), magic_only=b"\x93NUMPY", version_4=npy("|u1", "(1,)", b"x", 4))


def idx(code, extents, data):
    return bytes([0, 0, code, len(extents)]) + b"".join(struct.pack(">I", e) for e in extents) + data


most = 0xffffffff
idx_seeds = dict(
    images=idx(8, [2, 2, 3], b"abcdefghijkl"), labels=idx(8, [3], b"\0\1\2"), signed=idx(9, [2], b"ab"), shorts=idx(0x0B, [2, 2], bytes(8)),
    ints=idx(0x0C, [2], bytes(8)), floats=idx(0x0D, [1, 2], bytes(8)), doubles=idx(0x0E, [2], bytes(16)), none=idx(8, [0, 28, 28], b""),
    no_rank=idx(8, [], b""), deep=idx(8, [1] * 64, b"x"), too_deep=idx(8, [1] * 65, b"x"), no_type=idx(0x0A, [1], b"x"), wraps=idx(0x0E, [0x20000000, 0x80000000, 8], b""),
    largest=idx(8, [most, most, most], b""), empty_samples=idx(8, [4, 0], b""), trailing=idx(8, [1], b"ab"), short=idx(0x0C, [1], b"abc"),
    not_idx=b"\1\0\10\1\0\0\0\0", half_header=b"\0\0\10\2\0\0")
put("idx", **idx_seeds)


def gz(data, level=6):
    return gzip.compress(data, level, mtime=0)


whole = gz(idx_seeds["images"])
put("gzip_idx", **{name: gz(content) for name, content in list(idx_seeds.items())[:8]}, stored=gz(idx_seeds["ints"], 0), plain=idx_seeds["images"],
    members=gz(idx_seeds["labels"][:5]) + gz(idx_seeds["labels"][5:]), trailing=whole + b"garbage", truncated=whole[:-5], flipped=whole[:15] + b"\xff" + whole[16:],
    bomb=gz(bytes(600_000), 9), magic=b"\x1f\x8b", named=whole[:3] + b"\x08" + whole[4:10] + b"images\0" + whole[10:], empty=gz(b""))


def cifar(*labels, of_100=False):
    image = bytes(3072)
    return b"".join((bytes([label // 5 % 256]) if of_100 else b"") + bytes([label]) + image for label in labels)


put("cifar", of_10=b"\0" + cifar(7), two_files=b"\2" + cifar(0, 9), of_100=b"\1" + cifar(99, of_100=True), two_files_of_100=b"\3" + cifar(0, 42, of_100=True),
    no_class=b"\0" + cifar(10), no_fine_class=b"\1" + cifar(100, of_100=True), no_class_in_second=b"\2" + cifar(1, 255), short=b"\0" + cifar(1)[:-1], none=b"\0",
    wrong_set=b"\1" + cifar(3))


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype, shape, first, last, **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last], **more}


bytes_3 = '"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}'
put("safetensors",
    two=safetensors({"images": tensor("U8", [3, 2], 3, 9), "labels": tensor("I8", [3], 0, 3)}, b"abcdefghi"),
    padded=safetensors("{" + bytes_3 + "}   ", b"abc"), metadata=safetensors({"__metadata__": {"format": "pt"}, "x": tensor("BOOL", [2, 1], 0, 2)}, b"\0\1"),
    floats=safetensors({"h": tensor("F16", [1, 2], 0, 4), "b": tensor("BF16", [1], 4, 6), "f": tensor("F32", [1], 6, 10), "d": tensor("F64", [1], 10, 18)}, bytes(18)),
    integers=safetensors({d: tensor(d, [1], o, o + n) for d, o, n in (("U16", 0, 2), ("I16", 2, 2), ("U32", 4, 4), ("I32", 8, 4), ("U64", 12, 8), ("I64", 20, 8))}, bytes(28)),
    none=safetensors({"x": tensor("F32", [0, 28], 0, 0), "y": tensor("U8", [0], 0, 0)}), no_tensor=safetensors({}), only_metadata=safetensors({"__metadata__": {}}),
    scalar=safetensors({"x": tensor("U8", [], 0, 1)}, b"a"), empty_samples=safetensors({"x": tensor("U8", [3, 0], 0, 0)}), uneven=safetensors({"x": tensor("U8", [2], 0, 2), "y": tensor("U8", [1], 2, 3)}, b"abc"),
    f8=safetensors({"x": tensor("F8_E4M3", [1], 0, 1)}, b"a"), deep=safetensors({"x": tensor("U8", [1] * 32, 0, 1)}, b"a"), too_deep=safetensors({"x": tensor("U8", [1] * 33, 0, 1)}, b"a"),
    overlap=safetensors({"x": tensor("U8", [2], 0, 2), "y": tensor("U8", [2], 1, 3)}, b"abc"), hole=safetensors({"x": tensor("U8", [1], 0, 1), "y": tensor("U8", [1], 2, 3)}, b"abc"),
    trailing=safetensors({"x": tensor("U8", [1], 0, 1)}, b"ab"), short=safetensors({"x": tensor("U8", [2], 0, 2)}, b"a"), backwards=safetensors({"x": tensor("U8", [1], 1, 0)}, b"a"),
    wraps=safetensors({"x": tensor("F64", [2**61 + 1], 0, 8)}, bytes(8)), wraps_2d=safetensors({"x": tensor("U8", [2**32, 2**32], 0, 0)}), too_wide=safetensors({"x": tensor("U8", [2**64], 0, 1)}, b"a"),
    negative=safetensors({"x": tensor("U8", [-1], 0, 1)}, b"a"), fraction=safetensors({"x": tensor("U8", [1.0], 0, 1)}, b"a"), infinite=safetensors("{" + bytes_3.replace("[3]", "[1e999]") + "}", b"abc"),
    one_offset=safetensors({"x": {**tensor("U8", [1], 0, 1), "data_offsets": [0]}}, b"a"), extra=safetensors({"x": tensor("U8", [1], 0, 1, extra=[])}, b"a"), missing=safetensors({"x": {"dtype": "U8"}}),
    twice=safetensors("{" + bytes_3 + "," + bytes_3 + "}", b"abc"), key_twice=safetensors("{" + bytes_3.replace("{", '{"dtype":"U8",') + "}", b"abc"), metadata_twice=safetensors('{"__metadata__":{"a":"","a":""}}'),
    metadata_number=safetensors({"__metadata__": {"a": 1}}), metadata_list=safetensors({"__metadata__": []}), nested=safetensors('{"x":' + "[" * 400), nested_objects=safetensors('{"x":' * 100),
    zero_padded=safetensors("{" + bytes_3 + "}\0\0", b"abc"), space_first=safetensors(" {}"), not_utf8=safetensors(b'{"\xc3":{}}'), escapes=safetensors("{" + bytes_3.replace("x", "\\u0078\\n\\ud83d\\ude00") + "}", b"abc"),
    names=safetensors({"": tensor("U8", [1], 0, 1), "\u597d": tensor("U8", [1], 1, 2)}, b"ab"), cut=safetensors("{" + bytes_3[:20]), behind=safetensors("{}{}"), list=safetensors("[]"),
    length_most=safetensors("{}", length=2**64 - 1), length_behind=safetensors("{}", length=3), length_none=safetensors("", length=0), half_length=b"\2\0\0\0", empty=b"")


def plan(requests, peak, bound, title="# cuota step plan 1: ", columns="id,lower,upper,size,offset", count=None):
    number = 0xcbf29ce484222325  # FNV-1a, as planned_step::hash
    for lower, upper, size, offset in requests:
        for value in (lower, upper, size, offset is not None):
            for byte in struct.pack("<Q", value % 2**64):
                number = (number ^ byte) * 0x100000001b3 % 2**64
    lines = [f"{i},{r[0]},{r[1]},{r[2]},{'' if r[3] is None else r[3]}" for i, r in enumerate(requests)]
    first = f"{title}requests={len(requests) if count is None else count} peak={peak} lower_bound={bound} hash={number:016x}"
    return "\n".join([first, columns, *lines, ""])


two = [(0, 3, 500, 0), (1, 2, 256, 512)]
put("plan_file", two=plan(two, 768, 768), crlf=plan(two, 768, 768).replace("\n", "\r\n"), none=plan([], 0, 0), unplanned=plan([*two, (4, 6, 9, None)], 768, 768),
    many=plan([(i, i + 1, 64, 0) for i in range(40)], 256, 256), overlap=plan([(0, 3, 500, 0), (1, 2, 256, 0)], 512, 768), uneven=plan([(0, 1, 1, 3)], 259, 256),
    above_peak=plan(two, 512, 768), wrong_peak=plan(two, 1024, 768), wrong_bound=plan(two, 768, 512), reversed=plan([(3, 3, 1, 0)], 256, 256),
    no_bytes=plan([(0, 1, 0, 0)], 0, 0), backwards=plan([(5, 6, 1, 0), (5, 6, 1, 256)], 512, 512), largest=plan([(0, 1, 2**64 - 1, 0)], 0, 0),
    largest_rounded=plan([(0, 1, 2**64 - 256, 0)], 2**64 - 256, 2**64 - 256), last_offset=plan([(0, 1, 1, 2**64 - 256)], 0, 256),
    add_up=plan([(0, 1, 2**63, 0), (1, 2, 2**63, 0)], 2**63, 2**63), unplanned_largest=plan([(0, 1, 2**64 - 256, None)], 0, 0),
    wrong_count=plan(two, 768, 768, count=3), version_2=plan(two, 768, 768, title="# cuota step plan 2: "), columns=plan(two, 768, 768, columns="id"),
    wrong_hash=plan(two, 768, 768).replace("500", "501"), title_only="# cuota step plan 1: requests=0 peak=0 lower_bound=0 hash=0", wide=plan([(0, 2**64 - 1, 1, 0)], 256, 256))
put("plan_step", two=bytes([0, 0, 0, 0, 3, 31, 1, 0, 1, 1, 16, 1, 4]), claimed=bytes([1, 3, 3, 0, 3, 31, 1, 0, 1, 1, 16, 1, 4]), overlap=bytes([0, 0, 0, 0, 3, 31, 1, 0, 1, 1, 16, 1, 0]),
    unplanned=bytes([0, 0, 0, 0, 3, 31, 0, 1, 1, 16, 1, 0]), chain=bytes([0, 0, 0] + [1, 1, 4, 1, 0] * 20), stair=bytes([0, 0, 0] + [x for i in range(8) for x in (1, 9, 16, 1, 2 * i)]),
    huge=bytes([0, 0, 0, 0, 3, 255] + [255] * 8 + [1, 255] + [255] * 8), uneven=bytes([0, 0, 0, 0, 3, 31, 1, 1]))

state = "cuota-loader-state 1 epoch 3 position 4096 order 18446744073709551615"
put("loader_state", some=state, zero="cuota-loader-state 1 epoch 0 position 0 order 0", version=state.replace(" 1 ", " 2 "), negative=state.replace("3", "-3"),
    too_large=state + "0", trailing=state + " ", cut=state[:40], leading=" " + state, hexadecimal=state.replace("3", "0x3"), zeros=state.replace("3", "003"))

put("text", ascii="\x20a name", controls="\x08a\nb\x7f\x1b[31m", quotes="\x30\"\\\"", accents="\x06\u00e9\u00fc\u00df\u4f60\u597d\U0001f600" * 4, overlong=b"\x10\xc0\x80\xe0\x80\x80\xf0\x80\x80\x80",
    surrogate=b"\x10\xed\xa0\x80", beyond=b"\x10\xf4\x90\x80\x80", cut=b"\x01\xf0\x9f\x98\xf0\x9f\x98\x80\x80\x80", tails=b"\x00" + b"\x80" * 90, wide=b"\x00" + "\u597d".encode() * 40)

trace = "id,lower,upper,size\na,0,3,500\nb,1,2,256\n"
put("trace_file", two=trace, any_order="size, other,upper ,lower,id\r\n5,x,2,1,a\r\n\r\n", no_size="id,lower,upper\n", twice="id,id,lower,upper,size\n", same_id=trace + "a,4,5,6\n",
    reversed=trace.replace("0,3", "3,0"), negative=trace.replace("500", "-500"), too_large=trace.replace("500", "18446744073709551616"), too_few=trace + "c,1\n", too_many=trace + "c,1,2,3,4\n",
    add_up=trace.replace("500", "18446744073709551615"), only_names="id,lower,upper,size", empty="", blank="\n \t\n", commas=",,,,\n", no_number=trace.replace("256", "many"))


def entry(action, addr, size, time, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames, **more}


def block(size, state, **more):
    return {"size": size, "requested_size": size - 1, "state": state, "frames": frames, **more}


frames = [{"name": "f", "filename": "a.py", "line": 3}]
segment = {"device": 0, "address": 4096, "total_size": 1024, "is_expandable": True, "segment_pool_id": (0, 0),
           "blocks": [block(512, "active_allocated"), block(256, "active_pending_free", address=4608), block(256, "inactive")]}
snapshot = {"segments": [segment], "device_traces": [[
    entry("segment_map", 4096, 1024, 5), entry("alloc", 4096, 511, 6, user_metadata="m"), entry("oom", 0, 9, 7, device_free=8),
    entry("free_requested", 9, 9, 8), entry("free_completed", 9, 9, 9), entry("snapshot", 0, 0, 9)]], "allocator_settings": {"x": 0.5, "y": None, "z": -1, "b": b"b"}}
itself = {"segments": []}
itself["device_traces"] = [itself]
twice = entry("alloc", 1, 1, 1)
put("pytorch_snapshot", **{f"protocol_{p}": pickle.dumps(snapshot, p) for p in (2, 3, 4, 5)}, segments_only=pickle.dumps([segment], 2),
    history=pickle.dumps([{**segment, "blocks": [{"size": 1024, "state": "active_allocated", "history": [{"real_size": 9, "frames": frames}]}]}], 2),
    itself=pickle.dumps(itself, 4), one_in_many_places=pickle.dumps({"segments": [], "device_traces": [[twice] * 9] * 9}, 4),
    code=b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.", code_4=b"\x80\x04\x8c\x02os\x8c\x06system\x93.", cut=pickle.dumps(snapshot, 4)[:100],
    long_text=b"\x80\x02X\xff\xff\xff\xff", memo=b"\x80\x02Nr\xff\xff\xff\x00.", largest=pickle.dumps([{**segment, "total_size": 2**64 - 4097}], 2),
    times_back=pickle.dumps({"segments": [], "device_traces": [[entry("alloc", 1, 1, 9), entry("alloc", 1, 2**60, 3), entry("odd", 1, 1, 1)]]}, 2))

op = '{"ph":"X","cat":"python_function","name":"train.py(3): f","pid":1,"tid":2,"ts":1,"dur":9,"args":{"a":[1,{"b":2}]}}'
seen = '{"ph":"i","name":"[memory]","pid":1,"tid":2,"ts":2.125,"args":{"Device Type":1,"Device Id":0,"Addr":4096,"Bytes":512}}'
gone = seen.replace(':512', ':-512').replace('2.125', '3e0')
own = ('{"ph":"M","pid":3,"name":"process_name","args":{"name":"pool p"}},{"ph":"b","cat":"block","id":"1","pid":3,"ts":0.001,"name":"t","args":{"bytes":9,"size":16,'
       '"address":"77","location":"a.cpp:4","from_before":false,"live_at_end":false}},{"ph":"e","cat":"block","id":"1","pid":3,"ts":4,"args":{}}')
put("chrome_trace", profile='{"x":{"y":[1]},"traceEvents":[' + ",".join((op, seen, gone)) + '],"z":1}', own="[" + own + "]", twice="[" + seen + "," + seen + "]",
    refused='[{"ph":"i","pid":3,"ts":1,"name":"refused","args":{"bytes":8,"held":4,"limit":5,"tag":"t","location":"a:1"}}]', cut="[" + seen + ",{", none="[]", text="no",
    oom="[" + seen.replace("[memory]", "[OutOfMemory]") + "]", big="[" + seen.replace("512", "18446744073709551615") + "]", late="[" + seen.replace("2.125", "1e19") + "]")
rmm = "Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59.999999,allocate,0x7f00,1000,0x0\n1,00:00:00.000001,free,0x7f00,1000,0x5581\n"
put("rmm_log", two=rmm, crlf=rmm.replace("\n", "\r\n"), failure=rmm + "1,00:00:00.000001,allocate failure,0x0,99,default\n", header=rmm[:39], twice=rmm + rmm[39:] * 2,
    back=rmm + "1,00:00:00.000000,allocate,0x1,18446744073709551615,0\n", few=rmm + "1,2\n", many=rmm + "1,00:00:00.000000,free,0x1,1,0,0\n", action=rmm + "1,00:00:00.000000,grow,0x1,1,0\n",
    time=rmm + "1,0:00:00.000000,free,0x1,1,0\n", size=rmm + "1,00:00:00.000000,free,0x1,-1,0\n", other="id,lower,upper,size\n", empty="")
