// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
