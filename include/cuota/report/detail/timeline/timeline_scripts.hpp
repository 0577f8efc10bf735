// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `timeline`: the page's script, in parts. Made from the .js files of this folder by packaging/timeline_scripts.
#pragma once

#include <string_view>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::string_view timeline_chart = R"js(
// ---- The chart. A label that would overlap another is left out.

let labels = [];    // boxes of the drawn labels
let columns = null;

function placeLabel(context, text, x, y, options = {}) {
  const width = context.measureText(text).width;
  const left = x - (options.align === "right" ? width : options.align === "center" ? width / 2 : 0);
  const box = {text, x: left - 2, y: y - 8, width: width + 4, height: 16};
  if (box.x < 0 || box.x + box.width > area.left + area.width + area.right) return false;
  const meets = (l) => box.x < l.x + l.width && l.x < box.x + box.width && box.y < l.y + l.height && l.y < box.y + box.height;
  if (labels.some(meets)) return false;
  labels.push(box);
  if (options.ground) {
    context.globalAlpha = 0.85;
    context.fillStyle = options.ground;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha = 1;
  }
  context.fillStyle = options.color ?? color("quiet");
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillText(text, left, y);
  return true;
}

function drawChart() {
  const {context, width, height, scale} = fitCanvas(byId("areas"));
  area.left = width < 560 ? 58 : 66;
  area.width = Math.max(width - area.left - area.right, 10);
  area.height = Math.max(height - area.top - area.bottom, 10);
  labels = [];
  columns = columnsOf(model.shown, state.view, Math.round(area.width * scale));
  fontOf(context, 12);
  drawSteps(context);
  drawByteAxis(context);
  drawTimeAxis(context);
  clipped(context, () => {
    drawStack(context, columns.most, columns.width, 0.58);
    drawStack(context, columns.least, columns.width, 1);
    drawReserved(context, scale);
  });
  drawMarks(context);
  drawLimits(context);
}

function clipped(context, draw) {
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  draw();
  context.restore();
}

// Draws all bands of all columns, stacked.
function drawStack(context, sums, width, alpha) {
  const groups = model.bands.length;
  let below = new Float64Array(width);
  model.bands.forEach((band, b) => {
    const above = below.slice();
    for (let x = 0; x < width; ++x) above[x] += sums[x * groups + b];
    const isDim = state.emphasised !== null && !band.tags.includes(state.emphasised);
    context.globalAlpha = alpha * (isDim ? 0.22 : 1);
    fillBetween(context, below, above, band.color);
    if (alpha === 1) strokeLevels(context, above, color("card"));
    below = above;
  });
  context.globalAlpha = 1;
}

// Calls `point` at each corner of the step curve of the values, from the left or from the right.
function eachCorner(values, isBackward, point) {
  const width = values.length;
  const at = (x) => area.left + x / width * area.width;
  for (let i = 0; i < width;) {
    let j = i;
    const value = values[isBackward ? width - 1 - i : i];
    while (j < width && values[isBackward ? width - 1 - j : j] === value) ++j;
    point(at(isBackward ? width - i : i), yOf(value));
    point(at(isBackward ? width - j : j), yOf(value));
    i = j;
  }
}

function fillBetween(context, below, above, fill) {
  context.beginPath();
  eachCorner(above, false, (x, y) => context.lineTo(x, y));
  eachCorner(below, true, (x, y) => context.lineTo(x, y));
  context.closePath();
  context.fillStyle = fill;
  context.fill();
}

function strokeSteps(context, values, stroke, width) {
  context.beginPath();
  eachCorner(values, false, (x, y) => context.lineTo(x, y));
  context.strokeStyle = stroke;
  context.lineWidth = width;
  context.stroke();
}

// Draws a thin line between two bands where it is level; vertical lines of many short lives would cover the bands.
function strokeLevels(context, values, stroke) {
  context.beginPath();
  let last = null;
  eachCorner(values, false, (x, y) => {
    if (last !== null && last.y === y && x - last.x >= 3) {
      context.moveTo(last.x, y);
      context.lineTo(x, y);
    }
    last = {x, y};
  });
  context.strokeStyle = stroke;
  context.lineWidth = 0.75;
  context.stroke();
}

function drawReserved(context, scale) {
  if (!model.hasSegments) return;
  const reserved = columnsOf(model.reserved, state.view, Math.round(area.width * scale));
  strokeSteps(context, reserved.mostTotal, color("card"), 4);
  strokeSteps(context, reserved.mostTotal, color("ink"), 1.75);
}

function drawByteAxis(context) {
  for (const bytes of byteTicks(model.top)) {
    const y = yOf(bytes);
    context.strokeStyle = color(bytes === 0 ? "line" : "grid");
    context.lineWidth = 1;
    strokeLine(context, area.left, Math.round(y) + 0.5, area.left + area.width, Math.round(y) + 0.5);
    placeLabel(context, roundBytesText(bytes), area.left - 8, y, {align: "right"});
  }
}

function drawTimeAxis(context) {
  const bottom = area.top + area.height;
  const widest = context.measureText(timeText(state.view.to, (state.view.to - state.view.from) / 1e3)).width;
  const {ticks, step} = timeTicks(state.view, area.width / (widest + 28));
  for (const t of ticks) {
    const x = xOf(t);
    context.strokeStyle = color("line");
    strokeLine(context, x, bottom, x, bottom + 5);
    const align = x > area.left + area.width - 24 ? "right" : x < area.left + 20 ? "left" : "center";
    placeLabel(context, t === 0 ? "0" : timeText(t, step, state.view.to), x, bottom + 16, {align});
  }
}

function strokeLine(context, x0, y0, x1, y1, dash = []) {
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
  context.setLineDash([]);
}

// A limit far above the used memory is written at the top edge: drawn to scale, it would flatten the chart.
function drawLimits(context) {
  const right = area.left + area.width - 4;
  const beyond = model.limits.filter((limit) => limit.bytes > model.top);
  const near = model.limits.filter((limit) => limit.bytes <= model.top);
  context.strokeStyle = color("alarm");
  context.lineWidth = 1.5;
  for (const limit of near) strokeLine(context, area.left, yOf(limit.bytes), area.left + area.width, yOf(limit.bytes), [6, 4]);
  for (const limit of near.reverse()) {
    const y = yOf(limit.bytes);
    const text = `limit of ${cutText(limit.name, 28)}: ${bytesText(limit.bytes)}`;
    const options = {align: "right", color: color("alarm"), ground: color("card")};
    [y - 10, y + 10, y + 27, y + 44, y + 61].some((at) => placeLabel(context, text, right, at, options));
  }
  sayBeyond(context, beyond, right);
}

function sayBeyond(context, beyond, right) {
  const options = {align: "right", color: color("quiet"), ground: color("card")};
  const names = beyond.map((limit) => `${cutText(limit.name, 24)} ${bytesText(limit.bytes)}`).join(", ");
  const texts = [`↑ ${beyond.length === 1 ? "a limit" : "limits"} above the scale: ${names}`,
    `↑ ${counted(beyond.length, "limit")} above the scale`];
  const place = (text) => [10, 27, 44].some((at) => placeLabel(context, text, right, area.top + at, options));
  if (beyond.length > 0) texts.some(place);
}

function drawOverview() {
  const {context, width, height, scale} = fitCanvas(byId("overview-canvas"));
  const inner = {left: area.left, width: area.width};
  const all = columnsOf(model.shown, whole, Math.round(inner.width * scale));
  const x = (t) => inner.left + (t - whole.from) / (whole.to - whole.from) * inner.width;
  context.fillStyle = color("grid");
  context.fillRect(inner.left, 0, inner.width, height);
  context.fillStyle = color("quiet");
  context.globalAlpha = 0.55;
  all.mostTotal.forEach((bytes, i) => {
    const tall = bytes / model.top * (height - 2);
    context.fillRect(inner.left + i / scale, height - tall, 1 / scale, tall);
  });
  context.globalAlpha = 0.72;
  context.fillStyle = color("card");
  context.fillRect(inner.left, 0, x(state.view.from) - inner.left, height);
  context.fillRect(x(state.view.to), 0, inner.left + inner.width - x(state.view.to), height);
  context.globalAlpha = 1;
  context.strokeStyle = color("accent");
  context.lineWidth = 1.5;
  context.strokeRect(x(state.view.from) + 0.75, 0.75, Math.max(x(state.view.to) - x(state.view.from) - 1.5, 2), height - 1.5);
}
)js";

inline constexpr std::string_view timeline_input = R"js(
// ---- Pointer and keys.

let isDue = false;

// Draws the chart at most once per frame, however many events occur.
function drawSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    drawAll();
  });
}

function drawAll() {
  drawChart();
  drawOverview();
  drawOverlay();
  drawMap();
}

function drawOverlay() {
  const {context} = fitCanvas(byId("overlay"));
  for (const [t, look] of [[state.pinned, "accent"], [state.cursor, "ink"]]) {
    if (t === null || !isInView(t)) continue;
    const x = xOf(t);
    context.strokeStyle = color(look);
    context.lineWidth = look === "accent" ? 2 : 1;
    strokeLine(context, x, area.top - 4, x, area.top + area.height);
    const y = yOf(total(sumsAt(model.shown, t)));
    context.fillStyle = color(look);
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
  }
}

function setCursor(t) {
  state.cursor = t === null ? null : clamp(t, whole.from, whole.to);
  drawOverlay();
  fillReadout();
  fillLegend();
}

function select(t) {
  state.pinned = t === null ? null : clamp(t, whole.from, whole.to);
  drawMap();
  setCursor(state.cursor);
  byId("said").textContent = t === null ? "" : byId("map-summary").textContent;
}

function setView(from, to) {
  const span = clamp(to - from, Math.min(100, whole.to - whole.from), whole.to - whole.from);
  const begin = clamp((from + to) / 2 - span / 2, whole.from, whole.to - span);
  state.view = span < whole.to - whole.from ? {from: begin, to: begin + span} : {...whole};
  hideTip(byId("tip"));
  drawSoon();
  fillReadout();
}

function zoom(factor, around = (state.view.from + state.view.to) / 2) {
  const {from, to} = state.view;
  setView(around - (around - from) * factor, around + (to - around) * factor);
}

// Moves a time to the middle of the view unless it is clearly visible.
function goTo(t) {
  const span = state.view.to - state.view.from;
  if (t < state.view.from + span * 0.02 || t > state.view.to - span * 0.02) setView(t - span / 2, t + span / 2);
  hideTip(byId("tip"));
  setCursor(t);
  byId("plot").scrollIntoView({block: "nearest"});
}

function toggleTag(tag) {
  if (!state.hidden.delete(tag)) state.hidden.add(tag);
  makeShown();
  const row = byId("legend").querySelector(`tr[data-tag="${tag}"]`);
  row?.classList.toggle("is-hidden", state.hidden.has(tag));
  row?.querySelector("button").setAttribute("aria-pressed", String(!state.hidden.has(tag)));
  drawSoon();
}

function emphasise(tag) {
  if (state.emphasised === tag) return;
  state.emphasised = tag;
  for (const row of byId("legend").querySelectorAll("tr.tag"))
    row.classList.toggle("is-emphasised", tag !== null && row.dataset.tag === String(tag));
  drawSoon();
}

function showTip(tip, lines, x, y) {
  if (lines.length === 0) return hideTip(tip);
  tip.replaceChildren(...lines.map(([text, kind]) =>
    element(kind === "b" ? "b" : "div", {textContent: cutText(text, 200), className: kind === "b" ? "" : kind})));
  tip.hidden = false;
  const box = tip.parentElement;
  tip.style.left = `${clamp(x + 14 + tip.offsetWidth > box.clientWidth ? x - 14 - tip.offsetWidth : x + 14, 0,
    Math.max(box.clientWidth - tip.offsetWidth, 0))}px`;
  tip.style.top = `${Math.max(y + 16 + tip.offsetHeight > box.scrollHeight ? y - 10 - tip.offsetHeight : y + 16, 0)}px`;
}

const hideTip = (tip) => { tip.hidden = true; };

// Returns the band at a point of the chart, as drawn: at the peak within that pixel.
function bandAt(column, y) {
  let below = 0;
  for (let b = 0; b < model.bands.length; ++b) {
    below += columns.most[column * model.bands.length + b];
    if (y >= yOf(below) && columns.most[column * model.bands.length + b] > 0) return y <= area.top + area.height ? b : -1;
  }
  return -1;
}

function linesAt(x, y, column) {
  const lines = marksNear(x, y).slice(0, 4).map((m) => [markText(m), m.kind === "refused" ? "alarm" : ""]);
  const b = y < area.top ? -1 : bandAt(column, y);
  if (b < 0) return lines;
  const band = model.bands[b];
  const live = sumsAt(model.shown, state.cursor)[b];
  const places = band.tags.flatMap(placesOf).slice(0, 3).map((site) => [placeText(site), "quiet"]);
  return [[`${band.name}: ${bytesText(live)}`, "b"], ...places, ...lines];
}

function hover(x, y) {
  if (x < area.left || x > area.left + area.width) return leave();
  const column = clamp(Math.floor((x - area.left) / area.width * columns.width), 0, columns.width - 1);
  setCursor(columns.at[column]);
  showTip(byId("tip"), linesAt(x, y, column), x, y);
}

function leave() {
  hideTip(byId("tip"));
  setCursor(null);
}

function positionIn(target, event) {
  const box = target.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function listenToPlot() {
  const plot = byId("plot");
  let grabbed = null;
  plot.addEventListener("pointerdown", (event) => {
    if (event.button === 0) grabbed = {x: event.clientX, view: state.view, isDrag: false, id: event.pointerId};
  });
  plot.addEventListener("pointermove", (event) => {
    const [x, y] = positionIn(plot, event);
    if (!grabbed || Math.abs(event.clientX - grabbed.x) < 4 && !grabbed.isDrag) return hover(x, y);
    if (!grabbed.isDrag) plot.setPointerCapture(grabbed.id);
    grabbed.isDrag = true;
    plot.classList.add("is-dragged");
    const shift = (event.clientX - grabbed.x) / area.width * (grabbed.view.to - grabbed.view.from);
    setView(grabbed.view.from - shift, grabbed.view.to - shift);
  });
  plot.addEventListener("pointerup", (event) => {
    if (grabbed && !grabbed.isDrag) {
      hover(...positionIn(plot, event));
      if (state.cursor !== null) select(state.cursor);
    }
    grabbed = null;
    plot.classList.remove("is-dragged");
  });
  plot.addEventListener("pointercancel", () => { grabbed = null; });
  plot.addEventListener("pointerleave", () => { if (!grabbed) leave(); });
  plot.addEventListener("wheel", onWheel, {passive: false});
  plot.addEventListener("keydown", onKey);
}

// The wheel pans sideways or with Shift, and otherwise zooms at the pointer.
function onWheel(event) {
  event.preventDefault();
  const pixels = event.deltaMode === 1 ? 16 : 1;
  const sideways = event.deltaX !== 0 ? event.deltaX : event.shiftKey ? event.deltaY : 0;
  const shift = sideways * pixels / area.width * (state.view.to - state.view.from);
  if (sideways !== 0) setView(state.view.from + shift, state.view.to + shift);
  else zoom(Math.exp(clamp(event.deltaY * pixels, -200, 200) / 400), timeOf(positionIn(byId("plot"), event)[0]));
}

function moveCursor(share) {
  const from = state.cursor ?? state.pinned ?? (state.view.from + state.view.to) / 2;
  goTo(clamp(from + share * (state.view.to - state.view.from), whole.from, whole.to));
}

function nextMark() {
  const from = state.cursor ?? state.pinned ?? whole.from;
  const next = drawnMarks().find((m) => m.at > from) ?? drawnMarks()[0];
  if (next) goTo(next.at);
}

function closeAll() {
  hideTip(byId("tip"));
  hideTip(byId("map-tip"));
  state.cursor = null;
  select(null);
}

const keys = {
  ArrowLeft: (event) => moveCursor(event.shiftKey ? -0.1 : -0.01),
  ArrowRight: (event) => moveCursor(event.shiftKey ? 0.1 : 0.01),
  "+": () => zoom(0.5, state.cursor ?? undefined),
  "=": () => zoom(0.5, state.cursor ?? undefined),
  "-": () => zoom(2, state.cursor ?? undefined),
  _: () => zoom(2, state.cursor ?? undefined),
  0: () => setView(whole.from, whole.to),
  Home: () => setView(whole.from, whole.to),
  p: () => goTo(model.tagPeaks.at),
  n: () => nextMark(),
  Enter: () => select(shownMoment()),
  " ": () => select(shownMoment()),
};

function onKey(event) {
  const action = keys[event.key] ?? keys[event.key.toLowerCase()];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action(event);
}
)js";

inline constexpr std::string_view timeline_legend = R"js(
// ---- Tables. Names from the program are set as text, never as markup.

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const momentText = (t) => timeText(t, (state.view.to - state.view.from) / 2e3, state.view.to);

function makeLegend() {
  const rows = [totalRow("live", "total", model.tagPeaks.total)];
  if (model.hasSegments) rows.push(totalRow("reserved by pools", "reserved", model.reservedPeaks.total));
  for (const tag of model.tags.slice(0, 200)) rows.push(tagRow(tag));
  const more = model.tags.length - 200;
  if (more > 0) rows.push(element("tr", {}, element("td", {textContent: `and ${groups(more)} more tags`, colSpan: 3})));
  byId("legend").tBodies[0].replaceChildren(...rows);
  fillLegend();
}

function totalRow(name, key, peak) {
  const swatch = element("i", {className: key === "reserved" ? "swatch line" : "swatch"});
  const cell = element("span", {className: "name"}, swatch, name);
  const row = element("tr", {className: "total"}, element("td", {}, cell), element("td", {className: "number"}),
    element("td", {className: "number", textContent: bytesText(peak)}));
  row.dataset.key = key;
  return row;
}

function tagRow(tag) {
  const swatch = element("i", {className: "swatch"});
  swatch.style.background = colorOfTag(tag);
  const button = element("button", {className: "name", type: "button"}, swatch, cutText(tagName(tag), 60));
  button.setAttribute("aria-pressed", String(!state.hidden.has(tag)));
  const row = element("tr", {className: `tag${state.hidden.has(tag) ? " is-hidden" : ""}`},
    element("td", {}, button, placesLine(tag)), element("td", {className: "number"}),
    element("td", {className: "number", textContent: bytesText(model.tagPeaks.most[tag])}));
  row.dataset.tag = tag;
  row.addEventListener("click", () => toggleTag(tag));
  row.addEventListener("pointerenter", () => emphasise(tag));
  row.addEventListener("pointerleave", () => emphasise(null));
  button.addEventListener("focus", () => emphasise(tag));
  button.addEventListener("blur", () => emphasise(null));
  return row;
}

function placesLine(tag) {
  const places = placesOf(tag);
  const more = places.length > 2 ? ` and ${groups(places.length - 2)} more` : "";
  return element("div", {className: "place", title: places.map((site) => shownText(placeText(site, true))).join("\n"),
    textContent: places.slice(0, 2).map((site) => cutText(placeText(site), 40)).join(", ") + more});
}

let sitesOfTags = null;

// Returns a tag's call sites, by total bytes, largest first.
function placesOf(tag) {
  if (sitesOfTags === null) sitesOfTags = collectSites();
  return (sitesOfTags.get(tag) ?? []).map((i) => data.sites[i]).filter((site) => site.line !== 0);
}

function collectSites() {
  const bytes = new Float64Array(data.sites.length);
  for (let i = 0; i < blocks.count; ++i) bytes[blocks.site[i]] += blocks.size[i];
  const found = new Map();
  data.sites.forEach((site, i) => {
    if (bytes[i] === 0) return;
    if (found.has(site.tag)) found.get(site.tag).push(i);
    else found.set(site.tag, [i]);
  });
  for (const sites of found.values()) sites.sort((a, b) => bytes[b] - bytes[a]);
  return found;
}

const shownMoment = () => state.cursor ?? state.pinned ?? whole.to;

function fillLegend() {
  const t = shownMoment();
  const sums = sumsAt(model.byTag, t);
  const values = {total: total(sums), reserved: sumsAt(model.reserved, t)[0]};
  byId("legend-at").textContent = t === whole.to ? "at the end" : `at ${momentText(t)}`;
  for (const row of byId("legend").tBodies[0].rows) {
    if (row.cells.length < 3) continue;
    row.cells[1].textContent = bytesText(row.dataset.key ? values[row.dataset.key] : sums[row.dataset.tag]);
  }
}

function makeMarksTable() {
  const happened = drawnMarks();
  byId("marks-section").hidden = happened.length === 0;
  const rank = {refused: 0, marker: 1, reclaimed: 2};
  const first = happened.slice().sort((a, b) => rank[a.kind] - rank[b.kind]).slice(0, 200).sort((a, b) => a.at - b.at);
  byId("marks").tBodies[0].replaceChildren(...first.map(markRow));
  byId("marks-more").textContent = happened.length > 200 ? `200 of ${groups(happened.length)} are listed, refusals first.` : "";
}

function markRow(mark) {
  const site = siteOf(mark.site);
  const go = element("button", {type: "button", textContent: timeText(mark.at, (whole.to - whole.from) / 1e4, whole.to)});
  go.addEventListener("click", () => goTo(mark.at));
  const bytes = mark.kind === "marker" ? "" : bytesText(mark.bytes);
  const by = mark.source > 0 && data.sources[mark.source] ? ` by ${sourceName(mark.source)}` : "";
  return element("tr", {}, element("td", {}, go),
    element("td", {className: mark.kind === "refused" ? "alarm" : "", textContent: markWords[mark.kind] + by}),
    element("td", {className: "number", textContent: bytes}),
    element("td", {textContent: mark.kind === "reclaimed" ? "" : cutText(tagName(site.tag), 80)}),
    element("td", {className: "place wide", textContent: shownText(placeText(site)), title: shownText(placeText(site, true))}));
}
)js";

inline constexpr std::string_view timeline_lives = R"js(
// ---- Live bytes: exact at any time, and the maximum and minimum of each column of pixels.

const every = 1024;  // changes between two checkpoints

// `groupOf` maps each life to one of `groups` sums, or to -1.
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

// Returns the peak of each group and of the total, with its time, and the bytes of each that were allocated and freed.
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

// Returns, for each of `width` columns of a view, the sums at its maximum and at its minimum, so that changes shorter
// than a pixel stay visible.
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

inline constexpr std::string_view timeline_map = R"js(
// ---- The map: rows drawn to one scale, or each over the full width.

const mapLooks = {label: 18, bar: 24, gap: 12, mostRows: 200};
let mapRows = [];
let hatching = null;

function drawMap() {
  byId("map-section").hidden = state.pinned === null;
  if (state.pinned === null) return;
  mapRows = rowsAt(state.pinned);
  byId("map-title").textContent = `Segments at ${momentText(state.pinned)}`;
  byId("map-summary").textContent = mapSummary(mapRows);
  const shown = mapRows.slice(0, mapLooks.mostRows);
  const box = byId("map-box");
  const canvas = byId("map-canvas");
  canvas.style.height = `${shown.length * rowHeight() + 2}px`;
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(box.clientWidth * scale);
  canvas.height = Math.round((shown.length * rowHeight() + 2) * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  hatching = hatch(context);
  const largest = shown.reduce((most, row) => Math.max(most, row.bytes), 1);
  shown.forEach((row, i) => drawRow(context, row, i * rowHeight(), box.clientWidth - 2, largest));
}

const rowHeight = () => mapLooks.label + mapLooks.bar + mapLooks.gap;

function mapSummary(rows) {
  const held = rows.filter((row) => !row.isLoose);
  const sum = (fact) => held.reduce((all, row) => all + fact(row), 0);
  if (rows.length === 0) return "No memory was held at this time.";
  if (held.length === 0) return "Blocks only: this memory does not come in segments.";
  const free = sum((row) => row.gaps.reduce((all, g) => all + g.bytes, 0));
  const gaps = sum((row) => row.gaps.length);
  const largest = held.reduce((most, row) => Math.max(most, row.largestGap), 0);
  const more = rows.length > mapLooks.mostRows ? ` The first ${mapLooks.mostRows} are drawn.` : "";
  const pending = sum((row) => row.pending);
  const waiting = pending > 0 ? `, ${bytesText(pending)} freed and perhaps in use` : "";
  const head = `${counted(held.length, "segment")} of ${bytesText(sum((row) => row.bytes))}, ` +
    `${bytesText(sum((row) => row.live))} live${waiting}`;
  if (free === 0) return `${head}; nothing free in between.${more}`;
  return `${head}; ${bytesText(free)} free in ${counted(gaps, "gap")}, the largest ${bytesText(largest)}` +
    ` (${Math.round(100 * (1 - largest / free))} % of the free memory is outside of it).${more}`;
}

function rowText(row) {
  const name = cutText(sourceName(row.source), 28);
  if (row.isLoose) return `${name}  ·  ${counted(row.blocks.length, "block")}, ${bytesText(row.bytes)}`;
  const used = row.bytes === 0 ? 0 : Math.floor(100 * row.live / row.bytes);
  return `${name}  ·  ${addressText(row.region, row.offset)}  ·  ${bytesText(row.bytes)}  ·  ${used} % live`;
}

function drawRow(context, row, top, width, largest) {
  row.box = {x: 1, y: top + mapLooks.label, height: mapLooks.bar,
    width: state.stretched ? width : Math.max(width * row.bytes / largest, 3)};
  fontOf(context, 12);
  context.fillStyle = color("quiet");
  context.textBaseline = "middle";
  context.fillText(fittedText(context, rowText(row), width), 1, top + mapLooks.label / 2);
  context.fillStyle = color("free");
  context.fillRect(row.box.x, row.box.y, row.box.width, row.box.height);
  for (const block of row.blocks) drawBlock(context, row, block);
  context.strokeStyle = color("line");
  context.lineWidth = 1;
  context.strokeRect(row.box.x - 0.5, row.box.y - 0.5, row.box.width + 1, row.box.height + 1);
}

function drawBlock(context, row, block) {
  const perByte = row.box.width / Math.max(row.bytes, 1);
  const x = row.box.x + block.offset * perByte;
  const width = block.bytes * perByte;
  const tag = tagOfSite[blocks.site[block.life]] ?? 0;
  const isDim = state.emphasised !== null && tag !== state.emphasised;
  context.globalAlpha = isDim ? 0.25 : 1;
  context.fillStyle = block.use === "live" ? colorOfTag(tag) : hatching;
  context.fillRect(x, row.box.y, width > 3 ? width - 0.75 : width, row.box.height);
  context.globalAlpha = 1;
  if (block.use === "live" && width > 60) labelBlock(context, tag, x, row.box.y, width);
}

function labelBlock(context, tag, x, y, width) {
  const text = tagName(tag);
  fontOf(context, 11);
  const fitted = fittedText(context, text, width - 10);
  if (fitted.length < 3 && fitted !== text) return;
  context.fillStyle = isLight(colorOfTag(tag)) ? "#10141b" : "#ffffff";
  context.fillText(fitted, x + 5, y + mapLooks.bar / 2 + 0.5);
}

// Returns whether dark text is more readable on this color, by its luminance (WCAG).
function isLight(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2;
}

function fittedText(context, text, width) {
  let most = text.length;
  while (most > 0 && context.measureText(cutText(text, most)).width > width) most = most > 40 ? Math.floor(most * 0.8) : most - 1;
  return most === 0 ? "" : cutText(text, most);
}

function hatch(context) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const ink = tile.getContext("2d");
  ink.fillStyle = color("free");
  ink.fillRect(0, 0, 6, 6);
  ink.strokeStyle = color("quiet");
  for (const shift of [-6, 0, 6]) strokeLine(ink, shift, 6, shift + 6, 0);
  return context.createPattern(tile, "repeat");
}

// Returns {row, block} or {row, gap} at a point of the map; null outside.
function hitMap(x, y) {
  const isIn = ({box}) => box && y >= box.y && y <= box.y + box.height && x >= box.x && x <= box.x + box.width;
  const row = mapRows.find(isIn);
  if (!row) return null;
  const offset = (x - row.box.x) / row.box.width * row.bytes;
  const covers = (item) => offset >= item.offset && offset < item.offset + item.bytes;
  const block = row.blocks.filter(covers).sort((a) => (a.use === "live" ? -1 : 1))[0];
  return block ? {row, block} : {row, gap: row.gaps.find(covers) ?? null};
}

function linesOfHit({row, block, gap}) {
  if (!block) return gap ? [[`free: ${bytesText(gap.bytes)}`, "b"], [addressOf(row, gap), "quiet"]] : [];
  const i = block.life;
  const site = siteOf(blocks.site[i]);
  const lines = [[`${tagName(site.tag)}: ${bytesText(block.bytes)}`, "b"]];
  if (blocks.bytes[i] !== block.bytes) lines.push([`requested: ${groups(blocks.bytes[i])} B`, ""]);
  if (site.line !== 0) lines.push([placeText(site), ""]);
  lines.push([ageText(i), ""]);
  if (block.use === "pending") lines.push(["freed; work may still use it", ""]);
  const stream = blocks.stream[i] < 0 ? "" : `, stream ${data.streams[blocks.stream[i]]}`;
  lines.push([addressOf(row, block) + stream, "quiet"]);
  return lines;
}

function ageText(i) {
  if (blocks.from[i] === -Infinity) return "there before the first event";
  return `allocated ${durationText(state.pinned - blocks.from[i])} earlier`;
}
)js";

inline constexpr std::string_view timeline_map_rows = R"js(
// ---- The segments at one time, each a row of blocks and gaps.

// A block is live until it is freed; afterwards, pending work may use it until its completion is known.
function useAt(i, t) {
  if (t < blocks.from[i]) return null;
  if (t < blocks.until[i]) return "live";
  return t < blocks.completed[i] ? "pending" : null;
}

const isThere = (lives, i, t) => lives.from[i] <= t && t < lives.until[i];
const byAddress = (lives) => (a, b) => lives.region[a] - lives.region[b] || lives.offset[a] - lives.offset[b];

function thereAt(lives, isPickedAt) {
  const found = [];
  for (let i = 0; i < lives.count; ++i) if (state.picked.has(lives.source[i]) && isPickedAt(i)) found.push(i);
  return found.sort(byAddress(lives));
}

function rowsAt(t) {
  const there = thereAt(blocks, (i) => useAt(i, t) !== null);
  const live = there.filter((i) => useAt(i, t) === "live");
  const rows = segmentRows(thereAt(segments, (i) => isThere(segments, i, t)), live);
  const loose = new Map();
  for (const i of there) {
    const row = rowOf(rows, blocks.region[i], blocks.offset[i]);
    if (row) row.blocks.push({life: i, offset: blocks.offset[i] - row.offset, bytes: blocks.size[i], use: useAt(i, t)});
    else if (useAt(i, t) === "live") looseRow(loose, i);
  }
  return rows.concat([...loose.values()]).map(withGaps);
}

// Adjacent pages form one row, as do segments that one block spans.
function segmentRows(there, live) {
  const rows = [];
  for (const i of there) {
    const last = rows[rows.length - 1];
    const isNext = last && last.region === segments.region[i] && last.offset + last.bytes === segments.offset[i];
    if (isNext && (data.sources[last.source]?.paged || liesAcross(live, last.region, segments.offset[i])))
      last.bytes += segments.bytes[i];
    else rows.push({source: segments.source[i], region: segments.region[i], offset: segments.offset[i],
      bytes: segments.bytes[i], blocks: [], isLoose: false});
  }
  return rows;
}

// Returns the index of the last entry, in order of address, that begins before `offset` of a region; -1 if none does.
function lastBefore(count, regionAt, offsetAt, region, offset) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (regionAt(middle) < region || (regionAt(middle) === region && offsetAt(middle) < offset)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function liesAcross(live, region, offset) {
  const at = lastBefore(live.length, (i) => blocks.region[live[i]], (i) => blocks.offset[live[i]], region, offset);
  return at >= 0 && blocks.region[live[at]] === region && blocks.offset[live[at]] + blocks.size[live[at]] > offset;
}

function rowOf(rows, region, offset) {
  const row = rows[lastBefore(rows.length, (i) => rows[i].region, (i) => rows[i].offset, region, offset + 0.5)];
  return row && row.region === region && offset < row.offset + row.bytes ? row : null;
}

// Memory outside of pools, or of a pool without recorded segments: blocks side by side.
function looseRow(loose, i) {
  const source = blocks.source[i];
  if (!loose.has(source)) loose.set(source, {source, region: -1, offset: 0, bytes: 0, blocks: [], isLoose: true});
  const row = loose.get(source);
  row.blocks.push({life: i, offset: row.bytes, bytes: blocks.size[i], use: "live"});
  row.bytes += blocks.size[i];
}

function withGaps(row) {
  row.gaps = [];
  row.live = row.pending = 0;
  let known = 0;
  const gap = (until) => { if (until > known) row.gaps.push({offset: known, bytes: until - known}); };
  for (const block of row.blocks) {
    row[block.use] += block.bytes;
    gap(block.offset);
    known = Math.max(known, block.offset + block.bytes);
  }
  gap(row.bytes);
  row.largestGap = row.gaps.reduce((most, g) => Math.max(most, g.bytes), 0);
  return row;
}

function addressText(region, offset) {
  const hex = (BigInt(data.regions[region].address) + BigInt(offset)).toString(16);
  return `0x${hex}`;
}

const addressOf = (row, block) =>
  row.isLoose ? addressText(blocks.region[block.life], blocks.offset[block.life])
    : addressText(row.region, row.offset + block.offset);
)js";

inline constexpr std::string_view timeline_marks = R"js(
// ---- Marks: steps above the chart, and other events in a row of their own.

const laneOfSteps = 10;
const laneOfMarks = 29;
const markLooks = {refused: {color: "alarm", shape: "triangle"}, reclaimed: {color: "warm", shape: "diamond"},
  marker: {color: "accent", shape: "circle"}};
const markWords = {refused: "refused", reclaimed: "reclaimed", marker: "note"};

const isInView = (t) => t >= state.view.from && t <= state.view.to;
const drawnMarks = () => model.marks.filter((m) => markLooks[m.kind]);

function drawSteps(context) {
  const seen = model.steps.filter((s) => s.until > state.view.from && s.from < state.view.to);
  if (seen.length === 0) return;
  const right = area.left + area.width;
  const between = area.width / seen.length;
  const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e4, 1e5].find((n) => n * between > 60) ?? 1e6;
  for (const step of seen) drawStep(context, step, between);
  for (const step of seen) {
    const x0 = clamp(xOf(step.from), area.left, right);
    const text = `step ${step.number}`;
    const hasRoom = stride > 1 || xOf(step.until) - x0 > context.measureText(text).width + 6;
    if (step.number % stride === 0 && hasRoom) placeLabel(context, text, x0 + 4, laneOfSteps);
  }
}

// Draws stripes of two greys, or one grey if they would be too narrow to distinguish.
function drawStep(context, step, between) {
  const right = area.left + area.width;
  const x0 = clamp(xOf(step.from), area.left, right);
  const x1 = clamp(xOf(step.until), area.left, right);
  const isOdd = between < 8 || step.number % 2 === 1;
  context.fillStyle = color(isOdd ? "step" : "grid");
  context.fillRect(x0, area.top, x1 - x0, area.height);
  context.fillStyle = color(isOdd ? "grid" : "line");
  context.fillRect(x0, 0, x1 - x0, 20);
}

function drawMarks(context) {
  const taken = new Set();  // at most one mark of a kind per pixel
  const lines = {};         // position of the last line of each kind: adjacent lines would cover the chart
  const rank = {reclaimed: 0, marker: 1, refused: 2};  // the most important is drawn last
  for (const mark of drawnMarks().sort((a, b) => rank[a.kind] - rank[b.kind])) {
    const x = xOf(mark.at);
    const key = `${mark.kind} ${Math.round(x)}`;
    if (!isInView(mark.at) || taken.has(key)) continue;
    taken.add(key);
    context.fillStyle = context.strokeStyle = color(markLooks[mark.kind].color);
    context.lineWidth = 1;
    context.globalAlpha = mark.kind === "refused" ? 0.9 : 0.45;
    if (!(x - lines[mark.kind] < 10)) {
      strokeLine(context, x, laneOfMarks, x, area.top + area.height, mark.kind === "refused" ? [4, 3] : [1, 4]);
      lines[mark.kind] = x;
    }
    context.globalAlpha = 1;
    drawShape(context, markLooks[mark.kind].shape, x, laneOfMarks);
    labels.push({text: "", x: x - 6, y: laneOfMarks - 6, width: 12, height: 12, isGlyph: true});
  }
  const seen = drawnMarks().filter((mark) => isInView(mark.at));
  for (const kind of ["refused", "marker"])
    for (const mark of seen.filter((m) => m.kind === kind).slice(0, 2000)) labelMark(context, mark);
}

function labelMark(context, mark) {
  const isNote = mark.kind === "marker";
  const size = bytesText(mark.bytes);
  const texts = isNote ? [cutText(data.tags[siteOf(mark.site).tag], 22)] : [`${size} refused`, size];
  const options = {color: color(markLooks[mark.kind].color)};
  const x = xOf(mark.at);
  texts.some((text) => [10, 16, 22].some((d) => placeLabel(context, text, x + d, laneOfMarks, options)) ||
    placeLabel(context, text, x - 10, laneOfMarks, {...options, align: "right"}));
}

function drawShape(context, shape, x, y) {
  context.beginPath();
  if (shape === "circle") context.arc(x, y, 4, 0, 7);
  else {
    const corners = shape === "diamond" ? [[0, -5], [5, 0], [0, 5], [-5, 0]] : [[-6, -5], [6, -5], [0, 6]];
    corners.forEach(([dx, dy]) => context.lineTo(x + dx, y + dy));
  }
  context.fill();
}

// Returns the marks at pointer position x.
function marksNear(x, y) {
  const reach = y < area.top ? 7 : 3;
  return drawnMarks().filter((m) => isInView(m.at) && Math.abs(xOf(m.at) - x) <= reach);
}

function markText(mark) {
  const site = siteOf(mark.site);
  const tag = tagName(site.tag);
  const who = data.sources[mark.source] ? sourceName(mark.source) : "";
  const where = placeText(site);
  if (mark.kind === "marker") return `note: ${tag}`;
  if (mark.kind === "reclaimed") return `${who} reclaimed ${bytesText(mark.bytes)}`;
  const held = mark.held > 0 ? `, which held ${bytesText(mark.held)}` : "";
  return `${bytesText(mark.bytes)} refused to ${tag}${where ? ` at ${where}` : ""}, by ${who}${held}`;
}
)js";

inline constexpr std::string_view timeline_model = R"js(
// ---- The recording: columns of numbers, one entry per life (allocation).

const data = JSON.parse(byId("cuota-data").textContent);
const blocks = livesOf(data.blocks);
const segments = livesOf(data.segments);
const tagOfSite = data.sites.map((site) => site.tag);
const pools = data.sources.map((s, i) => ({...s, index: i})).filter((s) => s.kind === "pool" || s.kind === "resource");
const whole = wholeTime();

function livesOf(columns) {
  const lives = {count: columns.from.length};
  for (const [name, numbers] of Object.entries(columns)) lives[name] = Float64Array.from(numbers);
  lives.from = lives.from.map((t) => (t < 0 ? -Infinity : t));    // live before the first event
  lives.until = lives.until.map((t) => (t < 0 ? Infinity : t));   // live after the last
  lives.source = Uint16Array.from(columns.region, (r) => data.regions[r].source);
  return lives;
}

// The shown range extends slightly beyond the first and last event, to show memory that was live before and after.
function wholeTime() {
  const span = Math.max(data.to - data.from, 1000);
  return {from: data.from - span * 0.01, to: data.from + span * 1.01};
}

const sourceName = (i) => shownText(data.sources[i]?.name || data.sources[i]?.kind || `source ${i}`);
const siteOf = (i) => data.sites[i] ?? data.sites[0];
const tagName = (tag) => shownText(data.tags[tag]) || "untagged";

// The begins are sorted; this sorts the ends and merges both. At equal times, ends come first: a life includes its
// begin and excludes its end.
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

// Returns the number of changes up to and including `t`.
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

inline constexpr std::string_view timeline_scales = R"js(
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
)js";

inline constexpr std::string_view timeline_start = R"js(
// ---- Start, and functions for tests.

function listenToMap() {
  const canvas = byId("map-canvas");
  const tip = byId("map-tip");
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = positionIn(canvas, event);
    const hit = hitMap(x, y);
    showTip(tip, hit ? linesOfHit(hit) : [], x, y);
  });
  canvas.addEventListener("pointerleave", () => hideTip(tip));
  byId("map-close").addEventListener("click", () => select(null));
  byId("map-stretch").addEventListener("change", (event) => {
    state.stretched = event.target.checked;
    drawMap();
  });
}

function listenToOverview() {
  const overview = byId("overview");
  const centre = (event) => {
    const [x] = positionIn(overview, event);
    const t = whole.from + (x - area.left) / area.width * (whole.to - whole.from);
    const half = (state.view.to - state.view.from) / 2;
    setView(t - half, t + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    centre(event);
  });
  overview.addEventListener("pointermove", (event) => { if (event.buttons & 1) centre(event); });
}

function listenToButtons() {
  byId("zoom-in").addEventListener("click", () => zoom(0.5, state.pinned ?? undefined));
  byId("zoom-out").addEventListener("click", () => zoom(2, state.pinned ?? undefined));
  byId("zoom-all").addEventListener("click", () => setView(whole.from, whole.to));
  byId("to-peak").addEventListener("click", () => {
    goTo(model.tagPeaks.at);
    select(model.tagPeaks.at);
  });
  byId("sources").addEventListener("change", (event) => filter(event.target.value === "" ? null : [Number(event.target.value)]));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeAll(); });
}

const themeNow = () => document.documentElement.dataset.theme;

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  palette = {};
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colors`);
  if (model && !model.isEmpty) drawAll();
}

function followSystemTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
}

// Printed pages use the light theme.
function listenToPrinter() {
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = themeNow();
    setTheme("light");
  });
  window.addEventListener("afterprint", () => setTheme(before ?? "light"));
}

function filter(indices) {
  pickPools(indices ?? pools.map((s) => s.index));
  byId("sources").value = indices && indices.length === 1 ? String(indices[0]) : "";
  makeTexts();
  makeFigures();
  makeLegend();
  makeMarksTable();
  fillReadout();
  drawAll();
}

function makeFilter() {
  byId("sources-label").hidden = pools.length < 2;
  const choices = [element("option", {value: "", textContent: "all memory"})];
  for (const s of pools) choices.push(element("option", {value: String(s.index),
    textContent: `${cutText(sourceName(s.index), 40)}${s.memory === "device" ? "" : ` (${s.memory})`}`}));
  byId("sources").replaceChildren(...choices);
}

function factsAt(t) {
  const tags = Object.create(null);  // a tag may be named __proto__
  for (const [tag, bytes] of largestAt(t)) tags[data.tags[tag]] = bytes;
  return {at: t, total: total(sumsAt(model.byTag, t)), reserved: sumsAt(model.reserved, t)[0], tags};
}

const factsOfRow = (row) => ({source: data.sources[row.source]?.name, bytes: row.bytes, live: row.live, isLoose: row.isLoose,
  address: row.isLoose ? null : addressText(row.region, row.offset), largestGap: row.largestGap, box: row.box,
  blocks: row.blocks.map((b) => ({address: addressOf(row, b), bytes: b.bytes, use: b.use, offset: b.offset,
    tag: data.tags[siteOf(blocks.site[b.life]).tag]}))});

const bandsAt = (t) => [...sumsAt(model.shown, t)].map((bytes, b) => ({bytes, name: model.bands[b].name,
  color: model.bands[b].color}));

// The shown contents, for tests: at(t) and peak() return the bytes of the selected pools, bands(t) those of the areas from
// the lowest up, map(t) their segments, labels() the boxes of all text in the chart; select(t) opens the map, null closes
// it; filter([source]) selects pools, null all.
window.cuotaTimeline = Object.freeze({
  data,
  at: factsAt,
  peak: () => ({at: model.tagPeaks.at, total: model.tagPeaks.total, reserved: model.reservedPeaks.total}),
  bands: bandsAt,
  map: (t) => rowsAt(t).map(factsOfRow),
  shownMap: () => mapRows.map(factsOfRow),
  labels: () => labels.map((l) => ({...l})),
  state: () => ({cursor: state.cursor, pinned: state.pinned, view: {...state.view}, theme: themeNow(),
    hidden: [...state.hidden].map((tag) => data.tags[tag]), top: model.top, area: {...area}}),
  xOf: (t) => xOf(t),
  yOf: (bytes) => yOf(bytes),
  select, filter, theme: setTheme, zoomTo: setView,
});

function start() {
  followSystemTheme();
  byId("theme").addEventListener("click", () => setTheme(themeNow() === "dark" ? "light" : "dark"));
  const isEmpty = blocks.count === 0 && segments.count === 0 && data.marks.length === 0;
  byId("nothing").hidden = !isEmpty;
  document.querySelector("main").hidden = byId("figures").hidden = isEmpty;
  makeFilter();
  pickPools([...state.picked]);
  makeTexts();
  if (isEmpty) return sayNothing();
  listenToPlot();
  listenToMap();
  listenToOverview();
  listenToButtons();
  listenToPrinter();
  new ResizeObserver(drawSoon).observe(byId("plot"));
  filter(null);
}

function sayNothing() {
  byId("summary").textContent = data.dropped > 0 ? `${counted(data.dropped, "event")} were dropped.` : "";
  byId("sources-label").hidden = true;
  model.isEmpty = true;
}

start();
)js";

inline constexpr std::string_view timeline_texts = R"js(
// ---- A description of the chart in text, also for screen readers.

function makeFigures() {
  const refusals = model.marks.filter((m) => m.kind === "refused");
  const figures = [["peak of live bytes", bytesText(model.tagPeaks.total), `at ${timeText(Math.max(model.tagPeaks.at, 0))}`]];
  if (model.hasSegments) figures.push(["peak reserved by pools", bytesText(model.reservedPeaks.total), ""]);
  figures.push(["live at the end", bytesText(total(sumsAt(model.byTag, whole.to))), ""]);
  figures.push(["recorded", durationText(data.to - data.from), counted(data.events, "event")]);
  if (refusals.length > 0) figures.push(["refused", counted(refusals.length, "request"), "", "alarm"]);
  byId("figures").replaceChildren(...figures.map(([name, value, more, kind]) => {
    const dd = element("dd", {textContent: `${value} `}, element("small", {textContent: more}));
    return element("div", {className: kind ?? ""}, element("dt", {textContent: name}), dd);
  }));
}

function summaryText() {
  const {total: most, at} = model.tagPeaks;
  const top = largestAt(at).slice(0, 3).map(([tag, bytes]) => `${cutText(tagName(tag), 40)} ${bytesText(bytes)}`);
  const began = data.began > 0 ? `Recorded on ${new Date(data.began).toISOString().slice(0, 19).replace("T", " ")} UTC. ` : "";
  const refusals = model.marks.filter((m) => m.kind === "refused").length;
  const peak = `At most ${bytesText(most)} were live, ${timeText(Math.max(at, 0))} after the beginning: ${top.join(", ")}` +
    `${model.tags.length > 3 ? " and others" : ""}.`;
  return began + (most > 0 ? peak : "No block was live.") +
    (refusals > 0 ? ` ${counted(refusals, "request was", "requests were")} refused.` : "");
}

function largestAt(t) {
  return [...sumsAt(model.byTag, t)].map((bytes, tag) => [tag, bytes]).filter(([, bytes]) => bytes > 0)
    .sort((a, b) => b[1] - a[1]);
}

function notesTexts() {
  const notes = ["Bytes are those of live blocks, rounded up by their pool. The black line shows the memory that the pools had " +
    "reserved on the device; the distance from the areas to it is free memory, or freed memory that work may still use."];
  notes.push("Where several events fall on one pixel, the full color shows the minimum, the pale color the maximum.");
  const before = blocks.from.reduce((all, t, i) => (t === -Infinity ? [all[0] + 1, all[1] + blocks.size[i]] : all), [0, 0]);
  const [were, begin] = before[0] === 1 ? ["was", "begins"] : ["were", "begin"];
  if (before[0] > 0) notes.push(`${counted(before[0], "block")} of ${bytesText(before[1])} ${were} allocated before the ` +
    `first event, and ${begin} at the left edge.`);
  if (data.dropped > 0) notes.push(`${counted(data.dropped, "event")} before the first one here ` +
    `${data.dropped === 1 ? "was" : "were"} dropped, because the recorder was full: blocks allocated and freed then ` +
    "are not shown.");
  const gone = data.sources.filter((s) => s.gone).map((s) => cutText(s.name, 40));
  if (gone.length > 0) notes.push(`Destroyed before the end: ${gone.join(", ")}. Blocks in there that lived all the time, from before the ` +
    "first event, are not known.");
  for (const limit of model.limits) notes.push(`The limit of ${limit.name} is ${bytesText(limit.bytes)}.`);
  return notes;
}

function makeTexts() {
  document.title = shownText(data.title) || "Memory over time";
  byId("title").textContent = document.title;
  byId("summary").textContent = summaryText();
  byId("notes").replaceChildren(...notesTexts().map((text) => element("li", {textContent: text})));
  const only = state.picked.size === 1 && pools.length > 1 ? ` in ${sourceName([...state.picked][0])}` : "";
  byId("chart-title").textContent = `Live bytes by tag${only}`;
}

function readoutText(t) {
  const sums = sumsAt(model.byTag, t);
  const reserved = model.hasSegments ? `, ${bytesText(sumsAt(model.reserved, t)[0])} reserved` : "";
  const top = largestAt(t).slice(0, 4).map(([tag, bytes]) => `${cutText(tagName(tag), 28)} ${bytesText(bytes)}`);
  return [`${momentText(t)}: ${bytesText(total(sums))} live${reserved}`, top.join(", ")];
}

function fillReadout() {
  const [head, rest] = readoutText(shownMoment());
  const isAtEnd = state.cursor === null && state.pinned === null;
  byId("readout").replaceChildren(element("b", {textContent: isAtEnd ? head.replace(/^[^:]+/, "at the end") : head}),
    rest ? ` — ${rest}` : "");
  const plot = byId("plot");
  plot.setAttribute("aria-valuemin", String(Math.round(whole.from)));
  plot.setAttribute("aria-valuemax", String(Math.round(whole.to)));
  plot.setAttribute("aria-valuenow", String(Math.round(shownMoment())));
  plot.setAttribute("aria-valuetext", `${head}. ${rest}`);
}
)js";

inline constexpr std::string_view timeline_units = R"js(
// ---- Units: times are nanoseconds since the start of the recording, sizes are bytes.

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

// A tick is a power of two or a small multiple: "512 MiB", "1.5 GiB".
function roundBytesText(bytes) {
  const unit = bytes < 1 ? 0 : Math.min(6, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** unit).toFixed(3))} ${byteUnits[unit]}`;
}

// Formats a time in the unit that suits `span`, with enough digits to distinguish times that differ by `step`.
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

// Control characters would be invisible, or begin a new line.
const shownText = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// Shortens to at most `most` letters, keeping beginning and end, where names and call sites differ.
function cutText(text, most) {
  const letters = Array.from(shownText(text));
  if (letters.length <= most) return letters.join("");
  const tail = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(letters.length - tail).join("")}`;
}
)js";

}  // namespace cuota::inline v0::detail
