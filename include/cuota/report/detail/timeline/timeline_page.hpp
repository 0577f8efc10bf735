// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `timeline`: the page's elements and styles, in strings of a few KiB, because some compilers limit their length.
#pragma once

#include <string_view>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::string_view timeline_head = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Memory over time</title>
)html";

inline constexpr std::string_view timeline_style = R"html(<style>
:root {
  color-scheme: light;
  --page: #f4f5f7; --card: #ffffff; --ink: #1b1f27; --quiet: #5b6472; --line: #dde1e7; --grid: #e9ecf0;
  --accent: #2f6fd0; --alarm: #c62f2f; --warm: #9a6200; --step: #f4f6f9; --free: #e4e7ec;
  --row: #f3f6fa; --shade: 0 1px 2px rgb(20 30 50 / .06), 0 4px 16px rgb(20 30 50 / .05);
}
:root[data-theme="dark"] {
  color-scheme: dark;
  --page: #0e1116; --card: #161a21; --ink: #e8ebf0; --quiet: #9aa4b2; --line: #2a313c; --grid: #222832;
  --accent: #79aef5; --alarm: #ff7d72; --warm: #e8b04a; --step: #1b2029; --free: #2a303a;
  --row: #1c222b; --shade: 0 1px 2px rgb(0 0 0 / .4);
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 20px clamp(12px, 2vw, 36px) 40px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
h1 { font-size: 22px; line-height: 1.25; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 0 0 8px; }
p { margin: 0; }
header { display: flex; flex-wrap: wrap; gap: 10px 24px; align-items: start; margin-bottom: 14px; }
header > div { flex: 1 1 320px; min-width: 0; }
#summary { color: var(--quiet); max-width: 110ch; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px;
  box-shadow: var(--shade); min-width: 0; }
[hidden] { display: none !important; }

#figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 0 0 12px; }
#figures div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 8px 14px; }
#figures dt { color: var(--quiet); font-size: 12px; }
#figures dd { margin: 0; font-size: 20px; font-weight: 600; line-height: 1.3; }
#figures dd small { font-size: 12px; font-weight: 400; color: var(--quiet); }
#figures .alarm dd { color: var(--alarm); }

main { display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 1080px) {
  main { grid-template-columns: minmax(0, 1fr) clamp(340px, 25vw, 520px); }
  #map-section, #marks-section, #notes-section { grid-column: 1 / -1; }
}
.bar { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; }
.bar .gap { flex: 1; }
button, select {
  font: inherit; font-size: 13px; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  border-radius: 7px; padding: 3px 10px; min-height: 30px; cursor: pointer; max-width: 100%;
}
button:hover, select:hover { border-color: var(--accent); }
button:focus-visible, select:focus-visible, [tabindex]:focus-visible, input:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px; }

td button { min-height: 24px; padding: 0 8px; white-space: nowrap; }
td .name { white-space: normal; padding: 0; }

#plot { position: relative; height: clamp(320px, 52vh, 620px); margin-top: 10px; touch-action: pan-y;
  cursor: crosshair; border-radius: 6px; user-select: none; -webkit-user-select: none; }
#plot.is-dragged { cursor: grabbing; }
#plot canvas, #overview canvas { position: absolute; inset: 0; width: 100%; height: 100%; }
#overview { position: relative; height: 34px; margin-top: 8px; cursor: grab; touch-action: none; }
#readout { min-height: 44px; margin-top: 8px; padding: 8px 12px; background: var(--row); border-radius: 8px; }
#readout b { font-weight: 600; }
.keys { color: var(--quiet); font-size: 12px; margin-top: 8px; }
kbd { font: inherit; font-size: 11px; border: 1px solid var(--line); border-radius: 4px; padding: 0 4px; }
.tip { position: absolute; z-index: 2; pointer-events: none; max-width: min(340px, 90%); padding: 7px 10px;
  background: var(--card); color: var(--ink); border: 1px solid var(--line); border-radius: 8px; font-size: 12.5px;
  line-height: 1.4; box-shadow: 0 4px 18px rgb(0 0 0 / .22); overflow-wrap: anywhere; }
.tip b { display: block; }
.tip .alarm { color: var(--alarm); }
.tip .quiet { color: var(--quiet); }
)html"
                                                   R"html(
.scrolled { overflow-x: auto; overflow-y: auto; max-height: 640px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--quiet); font-weight: 500; font-size: 12px; position: sticky; top: 0;
  background: var(--card); z-index: 1; }
th, td { padding: 4px 8px; border-bottom: 1px solid var(--grid); vertical-align: top; }
th:first-child, td:first-child { padding-left: 2px; }
.number { text-align: right; white-space: nowrap; }
.place { color: var(--quiet); overflow-wrap: anywhere; font-size: 12px; }
td > .place { padding-left: 20px; line-height: 1.35; }
.alarm { color: var(--alarm); }
tr.tag { cursor: pointer; }
tr.tag:hover, tr.is-emphasised { background: var(--row); }
tr.is-hidden td, tr.is-hidden button { color: var(--quiet); text-decoration: line-through; }
tr.total td { font-weight: 600; }
.name { border: 0; background: none; padding: 0; min-height: 0; text-align: left; overflow-wrap: anywhere;
  display: flex; gap: 8px; align-items: baseline; }
.swatch { flex: none; width: 12px; height: 12px; border-radius: 3px; align-self: center;
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }
tr.is-hidden .swatch { opacity: .25; }
.swatch.line { height: 0; border-radius: 0; border-top: 2px solid var(--ink); }
#legend { min-width: 300px; }
#map-box { position: relative; margin-top: 10px; max-height: 640px; overflow-y: auto; }
#map-canvas { display: block; width: 100%; }
#map-keys { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; color: var(--quiet); margin-top: 6px; }
#map-keys span { display: inline-flex; gap: 6px; align-items: center; }
.swatch.pending { background: repeating-linear-gradient(45deg, var(--quiet) 0 2px, var(--free) 2px 5px); }
.swatch.free { background: var(--free); border: 1px solid var(--line); }
#notes { margin: 0; padding-left: 18px; color: var(--quiet); }
#nothing { text-align: center; padding: 60px 20px; }
#nothing p { color: var(--quiet); max-width: 60ch; margin: 6px auto 0; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (max-width: 560px) {
  body { padding: 14px 10px 30px; }
  section { padding: 10px; }
  .wide { display: none; }
  button { padding: 3px 8px; }
  h2 { font-size: 14px; }
  .bar { gap: 5px; }
  #figures { grid-template-columns: 1fr 1fr; gap: 8px; }
  #figures dd { font-size: 17px; }
}
@media print {
  body { background: #fff; padding: 0; }
  section, #figures div { box-shadow: none; break-inside: avoid; }
  .bar button, .bar select, .bar label, .keys, .tip, #overview { display: none !important; }
  .scrolled, #map-box { max-height: none; overflow: visible; }
  #plot { height: auto; }
  #areas { position: static !important; height: auto !important; }
  #map-canvas { height: auto !important; }
  main { grid-template-columns: minmax(0, 1fr); }
}
</style>
</head>
)html";

inline constexpr std::string_view timeline_layout = R"html(<body>
<header>
  <div><h1 id="title">Memory over time</h1><p id="summary"></p></div>
  <div class="bar" style="flex: none" role="toolbar" aria-label="View">
    <label id="sources-label">show <select id="sources" aria-label="Pools to show"></select></label>
    <button id="theme" type="button">Dark</button>
  </div>
</header>
<noscript><p>This page draws its recording with a script, but scripts are disabled here.</p></noscript>
<section id="nothing" hidden>
  <h2>Nothing was recorded</h2>
  <p>No block was allocated or freed during the recording, and none was live at its end. A recorder records
  the events of the pools, resources and budgets that were added to it, from then on.</p>
</section>
<dl id="figures"></dl>
<main>
  <section id="chart-section" aria-labelledby="chart-title">
    <div class="bar">
      <h2 id="chart-title" style="margin: 0">Live bytes by tag</h2><span class="gap"></span>
      <button id="to-peak" type="button">Peak</button>
      <button id="zoom-out" type="button" aria-label="Zoom out">&minus;</button>
      <button id="zoom-in" type="button" aria-label="Zoom in">+</button>
      <button id="zoom-all" type="button">All</button>
    </div>
    <div id="plot" tabindex="0" role="slider" aria-label="Time cursor" aria-valuemin="0" aria-valuemax="100"
      aria-valuenow="0" aria-describedby="summary keys">
      <canvas id="areas" aria-hidden="true"></canvas><canvas id="overlay" aria-hidden="true"></canvas>
      <div id="tip" class="tip" hidden></div>
    </div>
    <div id="overview" aria-hidden="true"><canvas id="overview-canvas"></canvas></div>
    <p id="readout"></p>
    <p id="keys" class="keys"><kbd>&larr;</kbd> <kbd>&rarr;</kbd> move the cursor, with <kbd>Shift</kbd> further;
      <kbd>Enter</kbd> or a click shows the segments then; <kbd>+</kbd> <kbd>&minus;</kbd> or the wheel zoom, dragging
      pans, <kbd>0</kbd> shows all; <kbd>P</kbd> goes to the peak, <kbd>N</kbd> to the next mark;
      <kbd>Esc</kbd> closes.</p>
  </section>
  <section id="legend-section" aria-labelledby="legend-title">
    <h2 id="legend-title">Tags</h2>
    <div class="scrolled"><table id="legend" aria-describedby="legend-title">
      <thead><tr><th scope="col">tag and places</th><th scope="col" class="number" id="legend-at">at the end</th>
        <th scope="col" class="number">peak</th></tr></thead>
      <tbody></tbody></table></div>
    <p class="keys">A click on a tag hides or shows it; hovering highlights it.</p>
  </section>
  <section id="map-section" aria-labelledby="map-title" hidden>
    <div class="bar"><h2 id="map-title" style="margin: 0">Segments</h2><span class="gap"></span>
      <label><input id="map-stretch" type="checkbox"> each segment over the whole width</label>
      <button id="map-close" type="button">Close</button></div>
    <p id="map-summary"></p>
    <div id="map-keys" aria-hidden="true">
      <span><i class="swatch free"></i>free</span>
      <span><i class="swatch pending"></i>freed, work may still use it</span>
      <span>colors are those of the tags</span></div>
    <div id="map-box"><canvas id="map-canvas" role="img" aria-labelledby="map-title map-summary"></canvas>
      <div id="map-tip" class="tip" hidden></div></div>
  </section>
  <section id="marks-section" aria-labelledby="marks-title" hidden>
    <h2 id="marks-title">Events</h2>
    <div class="scrolled"><table id="marks"><thead><tr><th scope="col">when</th><th scope="col">what</th>
      <th scope="col" class="number">bytes</th><th scope="col">for</th><th scope="col" class="wide">where</th></tr></thead>
      <tbody></tbody></table></div>
    <p id="marks-more" class="keys"></p>
  </section>
  <section id="notes-section" aria-labelledby="notes-title">
    <h2 id="notes-title">How to read this</h2><ul id="notes"></ul>
  </section>
</main>
<p id="said" class="unseen" role="status"></p>
)html";

inline constexpr std::string_view timeline_body =
    R"html(<script type="application/json" id="cuota-data">)html";

inline constexpr std::string_view timeline_script_begin = R"html(</script>
<script>
"use strict";
(() => {
)html";

inline constexpr std::string_view timeline_script_end = R"html(
})();
</script>
</body>
</html>
)html";

}  // namespace cuota::inline v0::detail
