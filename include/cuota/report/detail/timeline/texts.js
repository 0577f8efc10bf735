// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
