// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `timeline`: part 1 of the page's script, units, and the live bytes at any time.
#pragma once

#include <string_view>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::string_view timeline_units = R"js(
// ---- Units: times are nanoseconds since the recording began, sizes are bytes.

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const timeUnits = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const counted = (n, one, many = one + "s") => `${groups(n)} ${n === 1 ? one : many}`;

function groups(n) {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "'");
}

function bytesText(bytes) {
  let unit = 0;
  let value = bytes;
  while (unit < 6 && value >= (unit === 0 ? 1024 : 1023.95)) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${byteUnits[unit]}`;
}

// A tick is a power of two, or a small multiple: "512 MiB", "1.5 GiB".
function roundBytesText(bytes) {
  const unit = bytes < 1 ? 0 : Math.min(6, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** unit).toFixed(3))} ${byteUnits[unit]}`;
}

// In the unit that `span` is best told in, with as many digits as tell two times apart that are `step` apart.
function timeText(t, step = Math.abs(t) / 1e4, span = Math.abs(t)) {
  const [size, unit] = timeUnits.find(([u]) => span >= u) ?? timeUnits[3];
  const digits = clamp(Math.ceil(-Math.log10(Math.max(step, 1) / size) - 1e-9), 0, Math.round(Math.log10(size)));
  return `${(t / size).toFixed(digits)} ${unit}`;
}

const durationText = (t) => timeText(t, Math.max(t / 100, 1));

// "/home/me/train.cpp:17" as "train.cpp:17".
function placeText(site, whole = false) {
  if (!site || site.line === 0) return "";
  return `${whole ? site.file : site.file.slice(site.file.lastIndexOf("/") + 1)}:${site.line}`;
}

// Control characters would be drawn as nothing, or as a line of their own.
const shownText = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// At most `most` letters: its begin and its end, which is where names, and the lines of places, differ.
function cutText(text, most) {
  const letters = Array.from(shownText(text));
  if (letters.length <= most) return letters.join("");
  const tail = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(letters.length - tail).join("")}`;
}
)js";

inline constexpr std::string_view timeline_model = R"js(
// ---- The recording: columns of numbers, one entry for each life.

const data = JSON.parse(byId("cuota-data").textContent);
const blocks = livesOf(data.blocks);
const segments = livesOf(data.segments);
const tagOfSite = data.sites.map((site) => site.tag);
const pools = data.sources.map((s, i) => ({...s, index: i})).filter((s) => s.kind === "pool" || s.kind === "resource");
const whole = wholeTime();

function livesOf(columns) {
  const lives = {count: columns.from.length};
  for (const [name, numbers] of Object.entries(columns)) lives[name] = Float64Array.from(numbers);
  lives.from = lives.from.map((t) => (t < 0 ? -Infinity : t));    // there before the first event
  lives.until = lives.until.map((t) => (t < 0 ? Infinity : t));   // there after the last
  lives.source = Uint16Array.from(columns.region, (r) => data.regions[r].source);
  return lives;
}

// A little more than from the first event to the last: what was there before and after is seen, too.
function wholeTime() {
  const span = Math.max(data.to - data.from, 1000);
  return {from: data.from - span * 0.01, to: data.from + span * 1.01};
}

const sourceName = (i) => shownText(data.sources[i]?.name || data.sources[i]?.kind || `source ${i}`);
const siteOf = (i) => data.sites[i] ?? data.sites[0];
const tagName = (tag) => shownText(data.tags[tag]) || "untagged";

// The begins are in order already; the ends are put in order here, and both merged. At one instant ends come first: a
// life is from its begin on, until just before its end.
function changesOf(lives, isPicked) {
  const picked = [];
  for (let i = 0; i < lives.count; ++i) if (isPicked(lives.source[i]) && lives.from[i] < lives.until[i]) picked.push(i);
  const ends = Uint32Array.from(picked.filter((i) => lives.until[i] !== Infinity));
  ends.sort((a, b) => lives.until[a] - lives.until[b]);
  const changes = {count: 0, time: new Float64Array(picked.length * 2), life: new Uint32Array(picked.length * 2),
    sign: new Int8Array(picked.length * 2)};
  let end = 0;
  for (const i of picked) {
    while (end < ends.length && lives.until[ends[end]] <= lives.from[i]) addChange(changes, lives.until, ends[end++], -1);
    addChange(changes, lives.from, i, 1);
  }
  while (end < ends.length) addChange(changes, lives.until, ends[end++], -1);
  return changes;
}

function addChange(changes, times, life, sign) {
  changes.time[changes.count] = times[life];
  changes.life[changes.count] = life;
  changes.sign[changes.count++] = sign;
}

// The number of changes up to `t`, those at `t` among them.
function changesUntil(changes, t) {
  let low = 0;
  let high = changes.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes.time[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}
)js";

inline constexpr std::string_view timeline_lives = R"js(
// ---- What was live: exact at any time, and for each column of pixels the most and the least in it.

const every = 1024;  // changes between two checkpoints

// `groupOf` gives each life one of `groups` sums, or -1 for none.
function makeHistory(changes, size, groups, groupOf) {
  const history = {changes, groups, size, groupOf, checkpoints: [new Float64Array(groups)]};
  const sums = new Float64Array(groups);
  for (let i = 0; i < changes.count; ++i) {
    apply(history, i, sums);
    if ((i + 1) % every === 0) history.checkpoints.push(sums.slice());
  }
  return history;
}

function apply(history, i, sums) {
  const life = history.changes.life[i];
  const group = history.groupOf(life);
  if (group < 0) return 0;
  const delta = history.changes.sign[i] * history.size[life];
  sums[group] += delta;
  return delta;
}

function sumsAfter(history, count) {
  const checkpoint = Math.floor(count / every);
  const sums = history.checkpoints[checkpoint].slice();
  for (let i = checkpoint * every; i < count; ++i) apply(history, i, sums);
  return sums;
}

const sumsAt = (history, t) => sumsAfter(history, changesUntil(history.changes, t));
const total = (sums) => sums.reduce((a, b) => a + b, 0);

// The most of each group and of all together, with the time of it; and how many bytes of each came and went.
function peaksOf(history) {
  const {changes, groups} = history;
  const peaks = {most: new Float64Array(groups), churn: new Float64Array(groups), total: 0, at: whole.from};
  const since = new Float64Array(groups).fill(whole.from);
  const sums = new Float64Array(groups);
  const settle = (group, t) => {
    peaks.most[group] = Math.max(peaks.most[group], sums[group]);
    since[group] = t;
  };
  let all = 0;
  for (let i = 0; i < changes.count; ++i) {
    const time = Math.max(changes.time[i], whole.from);
    const group = history.groupOf(changes.life[i]);
    if (group >= 0 && time > since[group]) settle(group, time);
    const delta = apply(history, i, sums);
    all += delta;
    if (group >= 0 && time > whole.from) peaks.churn[group] += Math.abs(delta);
    if (all > peaks.total) Object.assign(peaks, {total: all, at: time});
  }
  for (let group = 0; group < groups; ++group) settle(group, whole.to);
  return peaks;
}

// For each of `width` columns of a view: the sums at the moment of the most in it, and at that of the least. What is
// shorter than a pixel is seen all the same.
function columnsOf(history, view, width) {
  const {changes, groups} = history;
  const columns = {width, most: new Float64Array(groups * width), least: new Float64Array(groups * width),
    mostTotal: new Float64Array(width), leastTotal: new Float64Array(width), at: new Float64Array(width)};
  const step = (view.to - view.from) / width;
  let next = changesUntil(changes, view.from);
  const sums = sumsAfter(history, next);
  let all = total(sums);
  for (let x = 0; x < width; ++x) {
    const begin = view.from + x * step;
    const end = view.from + (x + 1) * step;
    const isQuiet = next === changes.count || changes.time[next] >= end;
    keep(columns, x, sums, all, isQuiet ? (begin + end) / 2 : begin, true, true);
    while (next < changes.count && changes.time[next] < end) {
      const time = changes.time[next];
      while (next < changes.count && changes.time[next] === time) all += apply(history, next++, sums);
      keep(columns, x, sums, all, time, all > columns.mostTotal[x], all < columns.leastTotal[x]);
    }
  }
  return columns;
}

function keep(columns, x, sums, all, time, isMost, isLeast) {
  if (isMost) {
    columns.most.set(sums, x * sums.length);
    columns.mostTotal[x] = all;
    columns.at[x] = time;
  }
  if (isLeast) {
    columns.least.set(sums, x * sums.length);
    columns.leastTotal[x] = all;
  }
}
)js";

}  // namespace cuota::inline v0::detail
