// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The commonly used parts: budgets, pools, buffers, and a loader for memory, .npy files and raw files. Most other headers are in
/// all.hpp.
#pragma once

#include <cuota/fwd.hpp>
#include <cuota/version.hpp>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/half.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/refusal_text.hpp>
#include <cuota/core/suggestions.hpp>

#include <cuota/runtime/device.hpp>
#include <cuota/runtime/device_set.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/device_assert.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>
#include <cuota/runtime/simulator_hooks.hpp>
#include <cuota/runtime/stream.hpp>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/resource/resource_ref.hpp>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/reclaimer.hpp>

#include <cuota/pool/frame.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/pool_step.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>
#include <cuota/buffer/device_scalar.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/kernel_overflow_error.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/released_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>

#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/npy_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/data/loader/batch.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/batch_view.hpp>
#include <cuota/data/loader/loader_plan.hpp>
#include <cuota/data/loader/loader_state.hpp>
#include <cuota/data/loader/loader_stats.hpp>
#include <cuota/data/loader/progress_bar.hpp>
#include <cuota/data/samplers/sampler.hpp>
