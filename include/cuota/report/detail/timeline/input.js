// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
