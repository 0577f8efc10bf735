// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

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
