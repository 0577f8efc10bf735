// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// ---- Contents of the chart: the selected pools, their tags as bands, their limits.

// Neighbors differ in lightness as well as in hue, so that they can be distinguished without color vision.
const bandColors = ["#3f7fd6", "#f2b54a", "#1d9a86", "#f08b6e", "#8a5fc4", "#9fd0f5", "#c04a7f", "#bcd66e",
  "#56708f", "#f5cbb0"];
const otherColor = "#a3abb6";

const state = {picked: new Set(pools.map((s) => s.index)), hidden: new Set(), emphasised: null, view: {...whole},
  cursor: null, pinned: null, stretched: false};
let model = null;

function pickPools(indices) {
  state.picked = new Set(indices);
  const isPicked = (source) => state.picked.has(source);
  const blockChanges = changesOf(blocks, isPicked);
  const segmentChanges = changesOf(segments, isPicked);
  const byTag = makeHistory(blockChanges, blocks.size, data.tags.length, (life) => tagOfSite[blocks.site[life]] ?? 0);
  const reserved = makeHistory(segmentChanges, segments.bytes, 1, () => 0);
  model = {byTag, reserved, all: makeHistory(blockChanges, blocks.size, 1, () => 0), tagPeaks: peaksOf(byTag),
    reservedPeaks: peaksOf(reserved), related: relatedSources(), hasSegments: segmentChanges.count > 0};
  model.tags = rankTags();
  model.limits = limitsOf();
  model.marks = data.marks.filter((m) => isRelated(m));
  model.steps = stepsOf(model.marks);
  makeBands();
}

// The tags with the highest peaks have a band of their own. Those that change least are at the bottom, so that
// changes appear above a level base.
function makeBands() {
  const {most, churn} = model.tagPeaks;
  const large = model.tags.slice(0, model.tags.length > bandColors.length + 1 ? bandColors.length : bandColors.length + 1);
  const own = large.slice().sort((a, b) => churn[a] - churn[b] || most[b] - most[a]);
  const colors = bandColors.concat(otherColor);
  model.bands = own.map((tag, i) => ({name: tagName(tag), tags: [tag], color: colors[i]}));
  const others = model.tags.slice(large.length);
  if (others.length > 0) model.bands.push({name: `${others.length} others`, tags: others, color: otherColor});
  model.bandOfTag = new Int32Array(data.tags.length).fill(-1);
  model.bands.forEach((band, i) => band.tags.forEach((tag) => { model.bandOfTag[tag] = i; }));
  makeShown();
}

function makeShown() {
  const bandOf = (life) => {
    const tag = tagOfSite[blocks.site[life]] ?? 0;
    return state.hidden.has(tag) ? -1 : model.bandOfTag[tag];
  };
  model.shown = makeHistory(model.byTag.changes, blocks.size, model.bands.length, bandOf);
  const top = Math.max(peaksOf(model.shown).total, model.reservedPeaks.total, 1024);
  const near = model.limits.map((l) => l.bytes).filter((bytes) => bytes <= top * 1.6);
  model.top = Math.max(top, ...near) * 1.06;
}

const colorOfTag = (tag) => model.bands[model.bandOfTag[tag]]?.color ?? otherColor;

function rankTags() {
  const {most} = model.tagPeaks;
  return data.tags.map((_, tag) => tag).filter((tag) => most[tag] > 0).sort((a, b) => most[b] - most[a]);
}

// Returns the selected pools and the budgets that they are charged to, up to the root.
function relatedSources() {
  const related = new Set(state.picked);
  for (const i of state.picked)
    for (let b = data.sources[i]?.budget ?? -1; b >= 0 && data.sources[b] && !related.has(b); b = data.sources[b].parent)
      related.add(b);
  return related;
}

function isRelated(mark) {
  const isAll = state.picked.size === pools.length;
  return isAll || mark.source === 0 || model.related.has(mark.source);
}

function limitsOf() {
  const found = [];
  for (const i of model.related) {
    const s = data.sources[i];
    if (s && s.kind === "budget" && s.limit !== null) found.push({name: sourceName(i), bytes: s.limit});
  }
  return found.sort((a, b) => a.bytes - b.bytes);
}

// A step lasts until its end, the next begin or the end of the recording.
function stepsOf(marks) {
  const steps = [];
  const open = new Map();
  const close = (mark) => {
    if (open.has(mark.source)) open.get(mark.source).until = mark.at;
    open.delete(mark.source);
  };
  const counts = new Map();
  for (const mark of marks) {
    if (mark.kind !== "step_begun" && mark.kind !== "step_ended") continue;
    close(mark);
    if (mark.kind === "step_ended") continue;
    counts.set(mark.source, (counts.get(mark.source) ?? 0) + 1);
    const step = {source: mark.source, number: counts.get(mark.source), from: mark.at, until: whole.to};
    open.set(mark.source, step);
    steps.push(step);
  }
  return steps;
}

// ---- Layout.

const area = {left: 66, right: 12, top: 40, bottom: 28, width: 0, height: 0};

const xOf = (t) => area.left + (t - state.view.from) / (state.view.to - state.view.from) * area.width;
const timeOf = (x) => state.view.from + (x - area.left) / area.width * (state.view.to - state.view.from);
const yOf = (bytes) => area.top + area.height * (1 - bytes / model.top);

// Resizes the canvas to its element and clears it.
function fitCanvas(canvas) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const {width, height} = canvas.parentElement.getBoundingClientRect();
  const wanted = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wanted[0] || canvas.height !== wanted[1]) [canvas.width, canvas.height] = wanted;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width + 1, height + 1);
  return {context, width, height, scale};
}

let palette = {};  // colors of the theme, filled on demand

function color(name) {
  if (!(name in palette)) palette[name] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return palette[name];
}

const fontOf = (context, size, weight = 400) => { context.font = `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`; };

// Returns four to nine ticks at powers of two.
function byteTicks(top) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(top / Math.max(3, Math.min(9, area.height / 46)))));
  const ticks = [];
  for (let at = 0; at <= top; at += step) ticks.push(at);
  return ticks;
}

// Returns ticks at 1, 2 or 5 times a power of ten, limited by the width of their labels.
function timeTicks(view, most) {
  const wanted = (view.to - view.from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= wanted) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(Math.max(view.from, 0) / step); i * step <= view.to; ++i) ticks.push(i * step);
  return {ticks, step};
}
