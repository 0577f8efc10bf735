// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The definitions that launch kernels, of all layers; see cuota.cpp.
#define CUOTA_SEPARATE_COMPILATION 1
#define CUOTA_PART_KERNELS 1
#include <cuota/buffer/detail/scratch_counts.hpp>
#include <cuota/data/detail/loader/gather_rows.hpp>
#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/guard/detail/guarded/guard_copy.hpp>
#include <cuota/training/checkpointing/compressed_stages.hpp>
#include <cuota/training/detail/survivor_mask.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
