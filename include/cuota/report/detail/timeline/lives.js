// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
