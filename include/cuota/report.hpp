// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reports about a program's memory: all of report/ except nvtx.hpp, which needs NVTX.
#pragma once

#include <cuota/cuota.hpp>

#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/export/chrome_trace.hpp>
#include <cuota/report/export/lifetimes_csv.hpp>
#include <cuota/report/export/live_view.hpp>
#include <cuota/report/export/memory_viz.hpp>
#include <cuota/report/export/prometheus.hpp>
#include <cuota/report/export/refusal_log.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/export/summary_json.hpp>
#include <cuota/report/export/svg_canvas.hpp>
#include <cuota/report/export/svg_plot.hpp>
#include <cuota/report/export/timeline.hpp>
#include <cuota/report/export/timeline_svg.hpp>
#include <cuota/report/import/imported_recording.hpp>
#include <cuota/report/import/pytorch_snapshot.hpp>
#include <cuota/report/import/rmm_log.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/memory_event.hpp>
#include <cuota/report/recording/recorded.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/recording/usage_series.hpp>
#include <cuota/report/snapshot/check_snapshot.hpp>
#include <cuota/report/snapshot/environment.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>
#include <cuota/report/snapshot/process_list.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/report/snapshot/snapshot_changes.hpp>
#include <cuota/report/snapshot/snapshot_diff.hpp>
#include <cuota/report/snapshot/tag_totals.hpp>
