// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Budgets, pools, buffers and loaders: all of cuota but report.hpp, training.hpp, simulator/, interop/ and headers that
/// need a library of their own (data/gzip.hpp, data/safetensors_source.hpp).
#pragma once

#include <cuota/fwd.hpp>
#include <cuota/version.hpp>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/finite.hpp>
#include <cuota/core/half.hpp>
#include <cuota/core/handle.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/next_steps.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/core/refusal_text.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/stop_signal.hpp>

#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/call.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/cuda_state.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/device_set.hpp>
#include <cuota/runtime/drain.hpp>
#include <cuota/runtime/driver_call.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/kernel_misuse.hpp>
#include <cuota/runtime/memory.hpp>
#include <cuota/runtime/nvml.hpp>
#include <cuota/runtime/peer_access.hpp>
#include <cuota/runtime/primary_context.hpp>
#include <cuota/runtime/simulated.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/runtime/virtual_memory.hpp>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/resource/resource_ref.hpp>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/fence_damage.hpp>
#include <cuota/guard/fence_keeper.hpp>
#include <cuota/guard/fenced.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/guard/tracked_report.hpp>
#include <cuota/guard/watch.hpp>
#include <cuota/guard/watch_event.hpp>

#include <cuota/pool/frame.hpp>
#include <cuota/pool/lifespan.hpp>
#include <cuota/pool/lifetimes.hpp>
#include <cuota/pool/offset_plan.hpp>
#include <cuota/pool/plan_file.hpp>
#include <cuota/pool/planned_step.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/pool_step.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/pool/step_plan.hpp>
#include <cuota/pool/step_plan_stats.hpp>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>
#include <cuota/buffer/device_scalar.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/host_device.hpp>
#include <cuota/buffer/kernel_overflow.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/released_buffer.hpp>
#include <cuota/buffer/scratch_arena.hpp>
#include <cuota/buffer/staging_ring.hpp>

#include <cuota/data/batch.hpp>
#include <cuota/data/batch_deal.hpp>
#include <cuota/data/batch_loader.hpp>
#include <cuota/data/bucket_sampler.hpp>
#include <cuota/data/callable_source.hpp>
#include <cuota/data/cifar_source.hpp>
#include <cuota/data/concat_source.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/converted_source.hpp>
#include <cuota/data/device_conversion.hpp>
#include <cuota/data/device_transform.hpp>
#include <cuota/data/directory.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/file.hpp>
#include <cuota/data/idx_source.hpp>
#include <cuota/data/loader_plan.hpp>
#include <cuota/data/loader_state.hpp>
#include <cuota/data/loader_stats.hpp>
#include <cuota/data/memory_source.hpp>
#include <cuota/data/npy_source.hpp>
#include <cuota/data/permutation.hpp>
#include <cuota/data/progress_line.hpp>
#include <cuota/data/ragged_source.hpp>
#include <cuota/data/raw_source.hpp>
#include <cuota/data/resident_data.hpp>
#include <cuota/data/row_deal.hpp>
#include <cuota/data/sampler.hpp>
#include <cuota/data/slot_layout.hpp>
#include <cuota/data/source.hpp>
#include <cuota/data/subset_source.hpp>
#include <cuota/data/weighted_sampler.hpp>
#include <cuota/data/zip_source.hpp>
