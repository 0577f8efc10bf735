// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reports about a program's memory: all of report/ except nvtx.hpp, which needs NVTX.
#pragma once

#include <cuota/cuota.hpp>

#include <cuota/report/check_snapshot.hpp>
#include <cuota/report/chrome_trace.hpp>
#include <cuota/report/diagnosis.hpp>
#include <cuota/report/diagnosis_options.hpp>
#include <cuota/report/environment.hpp>
#include <cuota/report/finding.hpp>
#include <cuota/report/levels.hpp>
#include <cuota/report/lifetimes_csv.hpp>
#include <cuota/report/live_view.hpp>
#include <cuota/report/memory_event.hpp>
#include <cuota/report/memory_snapshot.hpp>
#include <cuota/report/memory_viz.hpp>
#include <cuota/report/process_list.hpp>
#include <cuota/report/prometheus.hpp>
#include <cuota/report/recorded.hpp>
#include <cuota/report/recorder.hpp>
#include <cuota/report/recording.hpp>
#include <cuota/report/refusal_log.hpp>
#include <cuota/report/replay.hpp>
#include <cuota/report/snapshot.hpp>
#include <cuota/report/snapshot_changes.hpp>
#include <cuota/report/snapshot_diff.hpp>
#include <cuota/report/summary.hpp>
#include <cuota/report/summary_json.hpp>
#include <cuota/report/svg_canvas.hpp>
#include <cuota/report/svg_plot.hpp>
#include <cuota/report/tag_totals.hpp>
#include <cuota/report/timeline.hpp>
#include <cuota/report/timeline_svg.hpp>
