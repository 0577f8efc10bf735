// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// All of cuota but simulator/, interop/ and headers that need a library of their own (data/gzip.hpp).
#pragma once

#include <cuota/fwd.hpp>
#include <cuota/version.hpp>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/handle.hpp>
#include <cuota/core/json.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/next_steps.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/core/refusal_text.hpp>
#include <cuota/core/scatter.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/core/tenured_lock.hpp>
#include <cuota/core/text.hpp>
#include <cuota/core/thread_record.hpp>
#include <cuota/core/thread_tenure.hpp>

#include <cuota/runtime/call.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/memory.hpp>
#include <cuota/runtime/simulated.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/runtime/virtual_memory.hpp>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/driver_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/resource/resource.hpp>

#include <cuota/guard/accounted.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/device_limit.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/guard/growth.hpp>
#include <cuota/guard/ledger.hpp>
#include <cuota/guard/ledger_tree.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/guard/onlooker.hpp>
#include <cuota/guard/pressure.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/stock.hpp>
#include <cuota/guard/watch.hpp>
#include <cuota/guard/watch_event.hpp>

#include <cuota/pool/block.hpp>
#include <cuota/pool/block_choice.hpp>
#include <cuota/pool/block_heap.hpp>
#include <cuota/pool/block_index.hpp>
#include <cuota/pool/block_pool.hpp>
#include <cuota/pool/frame.hpp>
#include <cuota/pool/frame_chunk.hpp>
#include <cuota/pool/frame_state.hpp>
#include <cuota/pool/free_bins.hpp>
#include <cuota/pool/front.hpp>
#include <cuota/pool/greedy_offsets.hpp>
#include <cuota/pool/grow_window.hpp>
#include <cuota/pool/growing_range.hpp>
#include <cuota/pool/idle_choice.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/pool/lifetimes.hpp>
#include <cuota/pool/live_report.hpp>
#include <cuota/pool/live_table.hpp>
#include <cuota/pool/offset_board.hpp>
#include <cuota/pool/offset_plan.hpp>
#include <cuota/pool/offset_preferences.hpp>
#include <cuota/pool/offset_search.hpp>
#include <cuota/pool/offset_users.hpp>
#include <cuota/pool/plan_file.hpp>
#include <cuota/pool/planned_slab.hpp>
#include <cuota/pool/planned_slabs.hpp>
#include <cuota/pool/planned_step.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/pool/pool_state.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/pool_step.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/pool/step_plan.hpp>
#include <cuota/pool/step_plan_stats.hpp>
#include <cuota/pool/step_recorder.hpp>
#include <cuota/pool/step_router.hpp>
#include <cuota/pool/step_server.hpp>
#include <cuota/pool/step_state.hpp>
#include <cuota/pool/stream_order.hpp>
#include <cuota/pool/survivors.hpp>
#include <cuota/pool/wait_set.hpp>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>

#include <cuota/data/any_source.hpp>
#include <cuota/data/batch_loader.hpp>
#include <cuota/data/device_slot.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/file.hpp>
#include <cuota/data/idx_source.hpp>
#include <cuota/data/loader_engine.hpp>
#include <cuota/data/loader_memory.hpp>
#include <cuota/data/loader_plan.hpp>
#include <cuota/data/npy_source.hpp>
#include <cuota/data/permutation.hpp>
#include <cuota/data/raw_source.hpp>
#include <cuota/data/source.hpp>
#include <cuota/data/subset_source.hpp>
#include <cuota/data/use_count.hpp>
#include <cuota/data/zip_source.hpp>
