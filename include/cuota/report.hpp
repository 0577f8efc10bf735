// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a program sees of its memory: all of report/ but nvtx.hpp, which needs NVTX.
#pragma once

#include <cuota/cuota.hpp>

#include <cuota/report/budget_order.hpp>
#include <cuota/report/check_snapshot.hpp>
#include <cuota/report/chrome_trace.hpp>
#include <cuota/report/columns.hpp>
#include <cuota/report/diagnosis.hpp>
#include <cuota/report/diagnosis_options.hpp>
#include <cuota/report/environment.hpp>
#include <cuota/report/event_clock.hpp>
#include <cuota/report/event_ring.hpp>
#include <cuota/report/finding.hpp>
#include <cuota/report/finding_words.hpp>
#include <cuota/report/fragmentation.hpp>
#include <cuota/report/level_rules.hpp>
#include <cuota/report/levels.hpp>
#include <cuota/report/lifetimes_csv.hpp>
#include <cuota/report/live_view.hpp>
#include <cuota/report/memory_event.hpp>
#include <cuota/report/memory_snapshot.hpp>
#include <cuota/report/memory_viz.hpp>
#include <cuota/report/memory_viz_encoders.hpp>
#include <cuota/report/memory_viz_trace.hpp>
#include <cuota/report/memory_viz_walk.hpp>
#include <cuota/report/peak_rules.hpp>
#include <cuota/report/pool_view.hpp>
#include <cuota/report/process_list.hpp>
#include <cuota/report/prometheus.hpp>
#include <cuota/report/recorded.hpp>
#include <cuota/report/recorder.hpp>
#include <cuota/report/recorder_state.hpp>
#include <cuota/report/recorder_taps.hpp>
#include <cuota/report/recording.hpp>
#include <cuota/report/refusal_log.hpp>
#include <cuota/report/replay.hpp>
#include <cuota/report/site_table.hpp>
#include <cuota/report/snapshot.hpp>
#include <cuota/report/snapshot_changes.hpp>
#include <cuota/report/snapshot_diff.hpp>
#include <cuota/report/snapshot_rules.hpp>
#include <cuota/report/step_account.hpp>
#include <cuota/report/step_rules.hpp>
#include <cuota/report/summary.hpp>
#include <cuota/report/summary_json.hpp>
#include <cuota/report/svg_axis.hpp>
#include <cuota/report/svg_canvas.hpp>
#include <cuota/report/svg_facts.hpp>
#include <cuota/report/svg_plot.hpp>
#include <cuota/report/svg_text.hpp>
#include <cuota/report/tag_totals.hpp>
#include <cuota/report/timeline.hpp>
#include <cuota/report/timeline_chart_script.hpp>
#include <cuota/report/timeline_data.hpp>
#include <cuota/report/timeline_input_script.hpp>
#include <cuota/report/timeline_map_script.hpp>
#include <cuota/report/timeline_model_script.hpp>
#include <cuota/report/timeline_page.hpp>
#include <cuota/report/timeline_scales_script.hpp>
#include <cuota/report/timeline_svg.hpp>
#include <cuota/report/timeline_tables_script.hpp>
#include <cuota/report/trace_stream.hpp>
