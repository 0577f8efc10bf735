// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `timeline`: part 5 of the page's script, the legend, the list of marks, and texts.
#pragma once

#include <string_view>

#include <cuota/version.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::string_view timeline_legend = R"js(
// ---- Tables. Text is only ever set as text: names from the program are no markup.

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

// The places of a tag, those with the most bytes in all first.
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

inline constexpr std::string_view timeline_texts = R"js(
// ---- Words: what the chart shows, for those who read, or listen.

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

}  // namespace cuota::inline v0::detail
