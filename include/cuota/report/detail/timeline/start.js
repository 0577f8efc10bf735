// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
