// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Training in little memory: all of training/.
#pragma once

#include <cuota/cuota.hpp>

#include <cuota/training/agreement.hpp>
#include <cuota/training/cast.hpp>
#include <cuota/training/chain.hpp>
#include <cuota/training/chain_plan.hpp>
#include <cuota/training/chain_requests.hpp>
#include <cuota/training/chain_simulation.hpp>
#include <cuota/training/checkpoint_stage.hpp>
#include <cuota/training/checkpointed.hpp>
#include <cuota/training/compressed_stages.hpp>
#include <cuota/training/find_batch_size.hpp>
#include <cuota/training/gradient_buckets.hpp>
#include <cuota/training/loss_scaler.hpp>
#include <cuota/training/master_weights.hpp>
#include <cuota/training/measure_stages.hpp>
#include <cuota/training/micro_batches.hpp>
#include <cuota/training/non_finite_check.hpp>
#include <cuota/training/offload_plan.hpp>
#include <cuota/training/pipeline.hpp>
#include <cuota/training/pipeline_order.hpp>
#include <cuota/training/pipeline_peaks.hpp>
#include <cuota/training/pipeline_state.hpp>
#include <cuota/training/placement.hpp>
#include <cuota/training/pruned.hpp>
#include <cuota/training/quantised.hpp>
#include <cuota/training/quantised_moments.hpp>
#include <cuota/training/rank_step.hpp>
#include <cuota/training/store_plans.hpp>
#include <cuota/training/thread_ranks.hpp>
#include <cuota/training/training_footprint.hpp>
#include <cuota/training/uniform_plan.hpp>
#include <cuota/training/with_retry.hpp>
