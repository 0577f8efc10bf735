// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Training in little memory: all of training/.
#pragma once

#include <cuota/cuota.hpp>

#include <cuota/training/batches/find_batch_size.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/batches/training_footprint.hpp>
#include <cuota/training/batches/with_retry.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/checkpointing/chain_plan.hpp>
#include <cuota/training/checkpointing/chain_requests.hpp>
#include <cuota/training/checkpointing/chain_simulation.hpp>
#include <cuota/training/checkpointing/checkpoint_stage.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/compressed_stages.hpp>
#include <cuota/training/checkpointing/measure_stages.hpp>
#include <cuota/training/checkpointing/offload_plan.hpp>
#include <cuota/training/checkpointing/revolve_plan.hpp>
#include <cuota/training/checkpointing/simple_plans.hpp>
#include <cuota/training/distributed/collective_step.hpp>
#include <cuota/training/distributed/gradient_buckets.hpp>
#include <cuota/training/distributed/pipeline.hpp>
#include <cuota/training/distributed/pipeline_1f1b.hpp>
#include <cuota/training/distributed/pipeline_peaks.hpp>
#include <cuota/training/distributed/pipeline_state.hpp>
#include <cuota/training/distributed/placement.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>
#include <cuota/training/distributed/thread_group.hpp>
#include <cuota/training/precision/cast.hpp>
#include <cuota/training/precision/loss_scaler.hpp>
#include <cuota/training/precision/master_weights.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
#include <cuota/training/precision/pruned.hpp>
#include <cuota/training/precision/quantized.hpp>
#include <cuota/training/precision/quantized_moments.hpp>
