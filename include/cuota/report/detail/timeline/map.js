// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
