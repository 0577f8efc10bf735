# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's viewer itself makes of a memory_viz snapshot: it decodes it, finds the peaks, and draws each moment.

    memory_viz_in_viewer.py PEAKS FILE...

CUOTA_MEMORY_VIZ names the viewer's script (MemoryViz.js; a file that it imports from its own folder is read, too).
PEAKS is a JSON list: the peak of each device. Its functions run under node, without a page.
"""

import os
import shutil
import subprocess
import sys

SCRIPT, NODE = os.environ.get("CUOTA_MEMORY_VIZ"), shutil.which("node")
if not SCRIPT or not NODE:
    print("SKIPPED: memory_viz_in_viewer (set CUOTA_MEMORY_VIZ to MemoryViz.js, and have node)")
    sys.exit(77)

HARNESS = r"""
const fs = require("fs"), path = require("path"), vm = require("vm");
const [script, wanted, ...files] = process.argv.slice(1);
let text = fs.readFileSync(script, "utf8");
for (const [, other] of text.matchAll(/from\s+"(\.\/[^"]+)"/g))
  text += "\n" + fs.readFileSync(path.join(path.dirname(script), other), "utf8");
const functions = [...text.matchAll(/^(?:export )?(function \w+[\s\S]*?^\})/gm)].map(m => m[1]).join("\n");
const anything = new Proxy(function () {}, {get: (_, name) => name === Symbol.toPrimitive ? () => 0 : anything,
                                            apply: () => anything});
const viewer = {console: {log() {}}, TextDecoder, d3: anything, zoom: anything, schemeTableau10: [], BigInt};
vm.createContext(viewer);
const inside = functions.replace(/return \{\s*draw\(idx\)/, "return {simulate_memory, draw(idx)");
if (inside === functions) throw new Error("the viewer has no draw(idx) in its MemoryView");
vm.runInContext(inside, viewer);
const check = (what, is, wants) => {
  if (is !== wants) throw new Error(`${what}: ${is}, not ${wants}`);
};
for (const file of files) {
  const bytes = fs.readFileSync(file);
  const snapshot = viewer.unpickle(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  viewer.annotate_snapshot(snapshot);
  const peaks = JSON.parse(wanted);
  check(`${file}: devices`, snapshot.device_traces.length, peaks.length);
  peaks.forEach((peak, device) => {
    const trace = snapshot.device_traces[device];
    const plot = viewer.process_alloc_data(snapshot, device, false, 1e9);
    check(`${file}: peak of device ${device}`, plot.max_size, peak);
    viewer.process_alloc_data(snapshot, device, true, 1e9);
    for (const event of trace) viewer.eventStack(event, 0, 0);
    const view = viewer.MemoryView(anything, anything, snapshot, device);
    const step = Math.max(1, Math.floor(trace.length / 200));
    for (let i = -1; i < trace.length; i += step) {
      const [segments, blocks] = view.simulate_memory(i);
      segments.sort((a, b) => a.addr - b.addr);
      segments.reduce((end, s) => {
        if (s.size <= 0 || s.addr < end) throw new Error(`${file}: segments after ${i}: ${JSON.stringify(s)}`);
        return s.addr + s.size;
      }, 0);
      for (const b of blocks)
        if (!segments.some(s => s.addr <= b.addr && b.addr + b.size <= s.addr + s.size))
          throw new Error(`${file}: a block in no segment after ${i}: ${JSON.stringify(b)}`);
    }
  });
}
"""
sys.exit(subprocess.run([NODE, "-e", HARNESS, SCRIPT, *sys.argv[1:]], timeout=250).returncode)
