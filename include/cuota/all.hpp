// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// All of cuota except simulator/, interop/ and headers that need another library.
#pragma once

#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>

#include <cuota/core/is_finite.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/core/unique_handle.hpp>

#include <cuota/runtime/cuda_info.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/host_memory.hpp>
#include <cuota/runtime/launch_kernel.hpp>
#include <cuota/runtime/memory_limits.hpp>
#include <cuota/runtime/nvml.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/driver_call.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/rt/older_toolkits.hpp>
#include <cuota/runtime/rt/peer_access.hpp>
#include <cuota/runtime/rt/primary_context.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>

#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pageable_memory.hpp>
#include <cuota/resource/registered_memory.hpp>

#include <cuota/guard/alert_event.hpp>
#include <cuota/guard/batch_fit.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/fallback.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/guard/guard_options.hpp>
#include <cuota/guard/guard_violation.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/guard/tracked_report.hpp>

#include <cuota/pool/graph_memory.hpp>
#include <cuota/pool/planning/lifetimes.hpp>
#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/pool/planning/plan_file.hpp>
#include <cuota/pool/planning/planned_step.hpp>
#include <cuota/pool/planning/pool_footprint.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/planning/step_plan_stats.hpp>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/scratch_arena.hpp>

#include <cuota/data/conversion.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/cifar_dataset.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/idx_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/io/directory.hpp>
#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/sample_too_long_error.hpp>
#include <cuota/data/loader/shard.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/data/samplers/bucket_sampler.hpp>
#include <cuota/data/samplers/permutation.hpp>
#include <cuota/data/samplers/weighted_sampler.hpp>
