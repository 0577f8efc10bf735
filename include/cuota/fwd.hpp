// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Forward declarations of the public names. If the compiler reports an incomplete type, include the header of that name, such as
/// pool/step_plan.hpp for step_plan, or all.hpp.
#pragma once

#include <cuota/core/config.hpp>

/// GPU memory management for CUDA programs: budgets that are charged before memory is allocated, pools, buffers and data loaders that use
/// them, and reports that explain a refusal. The nested namespace `rt` has thin wrappers of CUDA, which programs seldom need; `simulator`
/// controls the simulated device.
///
/// Comments state, where it is not obvious: Units (bytes or a count, inclusive or not), Order (the work after which memory is valid),
/// Threads (concurrent callers), Throws (and the state afterwards), Cost, and an example.
namespace cuota::inline v0 {

// core
class tag;
struct place;
struct label;
struct holding;
struct budget_facts;
struct device_facts;
struct reclaimer_facts;
struct refusal;
enum class step_kind;
struct raised_limit;
struct next_step;
class cuda_error;
class out_of_memory;
class budget_exceeded;
class misuse;
class data_error;
class element_count;
struct half;
struct bfloat16;
class stop_signal;

// runtime
class device;
class device_set;
class stream;
class stream_ref;
class event;
class time_mark;
class graph_exec;
template <class T>
class nvml_answer;
struct nvml_process;
struct nvml_memory;
class nvml;
enum class cuda_trouble;
struct device_description;
struct cuda_state;

// resource
class device_memory;
class async_memory;
class pinned_memory;
class registered_memory;
class numa_node;
class numa_memory;
class managed_memory;
class any_resource;
class resource_ref;

// guard
class budget;
class reservation;
class reclaimer;
struct copies;
struct batch_fit;
class footprint;
struct tag_usage;
struct usage_report;
class addresses_only;
struct tried_fit;
struct fence_damage;
class fence_broken;
struct fence_options;
struct tracked_block;
struct tracked_tag;
enum class tracked_order;
struct tracked_report;
struct tracked_diff;
class tracked_snapshot;
class growth_check;
class watch;
class watch_level;
enum class watch_signal;
struct watch_event;
struct watch_options;

// pool
struct lifetime;
struct plan_options;
struct offset_plan;
struct offset_conflict;
struct pool_stats;
struct pool_options;
struct tag_stats;
enum class lifespan;
template <lifespan Meant>
class pool_resource_for;
class pool_step;
class frame;
class frame_resource;
class scoped_pool;
struct planned_request;
struct planned_step;
struct step_plan_stats;
struct step_plan_options;
class step_resource;
class step_scope;
class step_plan;

// buffer
inline namespace CUOTA_VIEWS {
template <class T>
class device_span;
template <class T>
class device_matrix;
template <class T>
class lease;
template <class T>
class device_buffer;
template <class T>
class device_scalar;
template <class T>
class device_appender;
template <class T>
class append_buffer;
template <class T>
class host_device;
class device_scratch;
class scratch_arena;
}  // namespace CUOTA_VIEWS
class kernel_overflow;
struct raw_memory;
template <class T>
class released_buffer;
template <class T>
class pinned_buffer;
class staging_ring;
enum class pin_failure;
enum class ring_filler;
template <class T>
class pending_copy;

// data
struct field;
struct gather_context;
class file;
enum class arrow_access;
class arrow_source;
class concat_source;
enum class cifar_set;
class cifar_source;
class idx_source;
class kvikio_source;
class memory_source;
struct conversion;
class npy_source;
class raw_source;
class safetensors_source;
class any_sampler;
class sequential_sampler;
class shuffle_sampler;
class block_shuffle_sampler;
class subset_sampler;
class bucket_sampler;
class weighted_sampler;
class weighted_shuffle_sampler;
struct shard;
class sample_too_long;
struct slot_layout;
class transform_job;
struct device_transform;
struct loader_options;
struct loader_plan;
struct loader_state;
struct loader_read;
struct loader_stats;
class progress_line;
inline namespace CUOTA_VIEWS {
template <class T>
class batch_view;
}  // namespace CUOTA_VIEWS
class batch;
class epoch_range;
class batch_loader;
class resident_data;
struct cached_loader;

// training
enum class optimiser_kind;
enum class state_storage;
struct training_layer;
struct training_options;
struct placed_layer;
struct placement_device;
enum class placement_balance;
struct placement_options;
struct placement;
class placement_refused;
struct pipeline_act;
struct pipeline_device;
class pipeline;
struct chain_stage;
struct chain;
enum class chain_act;
struct chain_op;
struct chain_run;
class stage_run;
struct checkpoint_stage;
class checkpointed;
inline namespace CUOTA_VIEWS {
template <class T>
class pruned;
class non_finite_check;
}  // namespace CUOTA_VIEWS
struct adamw_options;
struct loss_scaler_options;
struct loss_scaler_state;
enum class scaling_phase;
class loss_scaler;
struct rank_link;
class rank_gone;
class agreement;
class thread_ranks;
struct bucket_options;
struct batch_search_options;
struct tried_batch;
struct batch_search;
struct micro_batch;
class micro_batches;
enum class retry_from;
struct retry_options;
struct retried;

// report
enum class event_kind;
enum class source_kind;
struct memory_event;
struct event_site;
struct event_source;
struct recording;
enum class block_use;
struct block_facts;
struct segment_facts;
struct tag_facts;
struct pool_facts;
struct budget_entry;
struct holder_facts;
struct memory_snapshot;
struct block_life;
struct segment_life;
struct lives;
struct diagnosis_options;
struct environment_facts;
enum class finding_kind;
enum class severity;
struct finding;
struct level_point;
enum class levels_by;
struct levels_options;
struct level_curve;
struct level_share;
struct levels;
struct live_view_options;
class live_view;
struct prometheus_options;
struct recorder_options;
class recorder;
struct refusal_log_options;
class refusal_log;
enum class snapshot_detail;
struct place_change;
struct pool_change;
struct budget_change;
struct snapshot_diff;
struct summary_options;
struct summary_json_options;
enum class svg_theme;
struct svg_options;
struct tag_total;
struct timeline_options;
struct chrome_trace_options;
enum class lifetimes_by;
struct lifetimes_csv_options;
struct memory_viz_options;

// interop, where each has a header of its own
class device_limits;
inline namespace CUOTA_VIEWS {
template <class T>
class foreign_buffer;
}  // namespace CUOTA_VIEWS
class pytorch_memory;
class mpi_error;
class mpi_ranks;
class mpi_sums;
class nccl_error;
class nccl_sums;

}  // namespace cuota::inline v0
