// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// All of cuota except simulator/, interop/ and headers that need another library (data/gzip.hpp, data/safetensors_source.hpp).
#pragma once

#include <cuota/cuota.hpp>
#include <cuota/report.hpp>
#include <cuota/training.hpp>

#include <cuota/core/finite.hpp>
#include <cuota/core/handle.hpp>
#include <cuota/core/refusal_json.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/stop_signal.hpp>

#include <cuota/runtime/cuda_state.hpp>
#include <cuota/runtime/drain.hpp>
#include <cuota/runtime/driver_call.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/nvml.hpp>
#include <cuota/runtime/peer_access.hpp>
#include <cuota/runtime/primary_context.hpp>
#include <cuota/runtime/virtual_memory.hpp>

#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/registered_memory.hpp>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/guard/fence_damage.hpp>
#include <cuota/guard/fence_keeper.hpp>
#include <cuota/guard/fenced.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/guard/tracked_report.hpp>
#include <cuota/guard/watch.hpp>
#include <cuota/guard/watch_event.hpp>

#include <cuota/pool/lifetimes.hpp>
#include <cuota/pool/offset_plan.hpp>
#include <cuota/pool/plan_file.hpp>
#include <cuota/pool/planned_step.hpp>
#include <cuota/pool/step_plan.hpp>
#include <cuota/pool/step_plan_stats.hpp>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/scratch_arena.hpp>

#include <cuota/data/batch_deal.hpp>
#include <cuota/data/bucket_sampler.hpp>
#include <cuota/data/callable_source.hpp>
#include <cuota/data/cifar_source.hpp>
#include <cuota/data/concat_source.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/converted_source.hpp>
#include <cuota/data/device_conversion.hpp>
#include <cuota/data/device_transform.hpp>
#include <cuota/data/directory.hpp>
#include <cuota/data/idx_source.hpp>
#include <cuota/data/permutation.hpp>
#include <cuota/data/ragged_source.hpp>
#include <cuota/data/resident_data.hpp>
#include <cuota/data/row_deal.hpp>
#include <cuota/data/slot_layout.hpp>
#include <cuota/data/subset_source.hpp>
#include <cuota/data/weighted_sampler.hpp>
#include <cuota/data/zip_source.hpp>
