# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/plan_trace: one line of figures, a sound output file by a checker of our own, bad input refused by line."""

import pathlib
import random
import tempfile

from _plan_trace import check, plan, run

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)

    def file(name, text):
        path = folder / name
        path.write_bytes(text.encode())
        return path

    # ---- plans
    rows = "b1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
    twelve = file("twelve.csv", "id,lower,upper,size\n" + rows)
    check("the peak of the example is 12", plan(twelve)["peak"] == 12)
    check("a capacity that is just enough is", plan(twelve, "--capacity", 12)["peak"] <= 12)
    check("CRLF and no newline at the end are fine",
          plan(file("crlf.csv", ("id,lower,upper,size\n" + rows).replace("\n", "\r\n").rstrip()))["peak"] == 12)
    check("columns come in any order, and others are passed over",
          plan(file("order.csv", "size,name,upper,lower,id\n4,x,3,0,b1\n4,y,9,3,b2\n4,,9,0,b3\n"))["peak"] == 8)
    check("a block of no size is fine", plan(file("none.csv", "id,lower,upper,size\na,0,9,0\nb,1,2,0\n"))["peak"] == 0)
    check("numbers of 64 bits are", plan(file("wide.csv", f"id,lower,upper,size\na,0,{2**64 - 1},{2**63}\n"
                                                        f"b,{2**64 - 2},{2**64 - 1},5\n"))["peak"] == 2**63 + 5)
    pick = random.Random(5)
    for case in range(40):
        blocks = []
        for i in range(pick.randrange(1, 60)):
            lower = pick.randrange(40)
            blocks.append(f"{i},{lower},{lower + pick.randrange(1, 12)},{pick.randrange(200)}")
        told = plan(file("random.csv", "id,lower,upper,size\n" + "\n".join(blocks)), "--time-limit", 0.2)
        check("the ratio of a small random problem is below 1.3", told["ratio"] < 1.3, told)

    # ---- what does not fit
    for capacity, words in ((11, "12 B are alive at once"), (0, "12 B are alive at once")):
        done = run(twelve, "--capacity", capacity, "--output", folder / "never.csv")
        check("a capacity out of reach ends with status 1", done.returncode == 1, done)
        check("it is said why", done.stderr.startswith(f"plan_trace: no plan within {capacity} B") and words in done.stderr, done)
        check("and nothing is written", not (folder / "never.csv").exists())

    # ---- bad files
    head = "id,lower,upper,size\n"
    for name, text, words in (
        ("empty", "", ["empty", "line 0"]),
        ("blank", "\n\n", ["the file is empty"]),
        ("only-names", head, ["line 1", "no block"]),
        ("no-size", "id,lower,upper\na,0,1\n", ["line 1", "no column 'size'"]),
        ("no-names", "a,0,1,5\n", ["line 1", "no column 'id'"]),
        ("twice", "id,lower,upper,size,size\na,0,1,5,5\n", ["line 1", "two columns 'size'"]),
        ("few", head + "a,0,1\n", ["line 2", "3 fields"]),
        ("many", head + "a,0,1,5,6\n", ["line 2", "5 fields"]),
        ("negative", head + "a,0,1,5\nb,0,1,-5\n", ["line 3", "size '-5'", "negative"]),
        ("negative-time", head + "a,-1,1,5\n", ["line 2", "lower '-1'", "negative"]),
        ("text", head + "a,0,one,5\n", ["line 2", "upper 'one'", "not a number"]),
        ("fraction", head + "a,0,1,5.5\n", ["line 2", "size '5.5'"]),
        ("plus", head + "a,0,1,+5\n", ["line 2", "size '+5'"]),
        ("nothing", head + "a,0,1,\n", ["line 2", "size ''"]),
        ("overflow", head + f"a,0,1,{2**64}\n", ["line 2", "more than 64 bits"]),
        ("sum", head + f"a,0,1,{2**64 - 1}\nb,5,6,1\n", ["line 3", "add up"]),
        ("reversed", head + "\na,3,2,5\n", ["line 3", "[3, 2) is reversed"]),
        ("instant", head + "a,3,3,5\n", ["line 2", "[3, 3) is empty"]),
        ("same-id", head + "a,0,1,5\nb,0,1,5\na,2,3,5\n", ["line 4", "id 'a'", "line 2"]),
        ("no-id", head + ",0,1,5\n", ["line 2", "id is empty"]),
    ):
        done = run(file(name, text), "--output", folder / "never.csv")
        check(f"{name}: the status is 1, with one line", done.returncode == 1 and done.stderr.count("\n") == 1, done)
        check(f"{name}: nothing is printed or written", not done.stdout and not (folder / "never.csv").exists(), done)
        check(f"{name}: a data error of that file, with the reason",
              done.stderr.startswith("plan_trace: cuota::data_error: ") and
              all(word in done.stderr for word in (name, *words)), done)
    for missing in (folder / "absent", folder):
        done = run(missing)
        check("a file that is none is a data error", done.returncode == 1 and "data_error" in done.stderr, done)
    done = run(twelve, "--output", folder / "no" / "folder.csv")
    check("an output that cannot be written is an error", done.returncode == 1 and "cannot be written" in done.stderr, done)

    # ---- the command line
    for arguments, words in (
        ([], "a file is needed"), ([twelve, twelve], "one file"), ([twelve, "--nonsense"], "'--nonsense'"),
        ([twelve, "--capacity"], "needs a value"), ([twelve, "--capacity", "-1"], "'-1'"),
        ([twelve, "--capacity", "1MiB"], "'1MiB'"), ([twelve, "--capacity", 2**64], str(2**64)),
        ([twelve, "--time-limit", "-1"], "'-1'"), ([twelve, "--time-limit", "nan"], "'nan'"),
        ([twelve, "--time-limit", "soon"], "'soon'"),
    ):
        done = run(*arguments)
        check("the status is 2, with the reason and the usage",
              done.returncode == 2 and words in done.stderr and "usage: plan_trace" in done.stderr and not done.stdout, done)
    helped = run("--help")
    check("help is no error", helped.returncode == 0 and "--capacity" in helped.stdout, helped)
