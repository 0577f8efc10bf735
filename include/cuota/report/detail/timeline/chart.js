// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
