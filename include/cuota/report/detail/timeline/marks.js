// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
