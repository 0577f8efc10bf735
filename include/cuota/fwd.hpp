// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Forward declarations of the public names. If the compiler reports an incomplete type, include the header of that name, or all.hpp.
#pragma once

#include <cuota/core/config.hpp>

/// GPU memory management: budgets that are charged before memory is allocated, pools, buffers, data loaders, and reports that explain a
/// refusal. The nested namespace `rt` has thin wrappers of CUDA; `simulator` controls the simulated device.
///
/// Comments state, where it is not obvious: Units (bytes or a count, inclusive or not), Order (the work after which memory is valid),
/// Threads (concurrent callers), Throws (and the state afterwards), Cost, and an example.
namespace cuota::inline v0 {

// core
class tag;
struct source_location;
struct label;
struct allocation_group;
struct budget_info;
struct device_info;
struct reclaimer_info;
struct refusal;
enum class suggestion_kind;
struct raised_limit;
struct suggestion;
class cuda_error;
class out_of_memory;
class budget_exceeded;
class usage_error;
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
class timed_event;
class graph_exec;
template <class T>
class nvml_result;
struct nvml_process;
struct nvml_memory;
class nvml;
enum class cuda_status;
struct device_properties;
struct cuda_info;

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
class dry_run_memory;
struct guard_violation;
class guard_bytes_error;
struct guard_options;
struct tracked_block;
struct tracked_tag;
enum class tracked_order;
struct tracked_report;
struct tracked_diff;
class tracked_snapshot;
class growth_check;
class budget_alert;
class alert_threshold;
enum class alert_signal;
struct alert_event;
struct alert_options;

// pool
struct lifetime;
struct plan_options;
struct offset_plan;
struct offset_conflict;
struct pool_stats;
struct pool_options;
struct tag_stats;
enum class lifetime_hint;
template <lifetime_hint Lifetime>
class pool_resource_for;
class pool_step;
class frame;
class frame_resource;
class scoped_pool;
class graph_memory;
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
class mirrored_buffer;
class device_scratch;
class scratch_arena;
}  // namespace CUOTA_VIEWS
class kernel_overflow_error;
struct raw_memory;
template <class T>
class released_buffer;
template <class T>
class pinned_buffer;
class staging_ring;
enum class pin_failure_policy;
enum class staging_writer;
template <class T>
class pending_copy;

// data
struct field;
struct gather_context;
class file;
enum class arrow_access;
class arrow_dataset;
class concat_dataset;
enum class cifar_set;
class cifar_dataset;
class idx_dataset;
class kvikio_dataset;
class memory_dataset;
struct conversion;
class npy_dataset;
class raw_dataset;
class safetensors_dataset;
class any_sampler;
class sequential_sampler;
class shuffle_sampler;
class block_shuffle_sampler;
class subset_sampler;
class bucket_sampler;
class weighted_sampler;
class weighted_shuffle_sampler;
struct shard;
class sample_too_long_error;
struct slot_layout;
class transform_context;
struct device_transform;
struct loader_options;
struct loader_plan;
struct loader_state;
struct loader_read;
struct loader_stats;
class progress_bar;
inline namespace CUOTA_VIEWS {
template <class T>
class batch_view;
}  // namespace CUOTA_VIEWS
class batch;
class epoch_range;
class batch_loader;
class device_resident_dataset;
struct cached_loader;

// training
enum class optimizer_kind;
enum class state_storage;
struct training_layer;
struct training_options;
struct placed_layer;
struct placement_device;
enum class placement_balance;
struct placement_options;
struct placement;
class placement_error;
struct pipeline_op;
struct pipeline_device;
class pipeline;
struct chain_stage;
struct chain;
enum class chain_op_kind;
struct chain_op;
struct chain_cost;
class stage_context;
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
struct rank_transport;
class rank_lost_error;
class rank_consensus;
class thread_group;
struct bucket_options;
struct batch_search_options;
struct batch_trial;
struct batch_search_result;
struct micro_batch;
class micro_batches;
enum class retry_from;
struct retry_options;
struct retry_result;

// report
enum class event_kind;
enum class source_kind;
struct memory_event;
struct event_site;
struct event_source;
struct recording;
enum class block_use;
struct block_info;
struct segment_info;
struct tag_info;
struct pool_info;
struct budget_entry;
struct holder_info;
struct memory_snapshot;
struct block_lifetime;
struct segment_lifetime;
struct memory_lifetimes;
struct diagnosis_options;
struct environment_info;
enum class finding_kind;
enum class severity;
struct finding;
struct usage_point;
enum class group_by;
struct usage_options;
struct usage_curve;
struct usage_share;
struct usage_series;
struct live_view_options;
class live_view;
struct prometheus_options;
struct recorder_options;
class recorder;
struct refusal_log_options;
class refusal_log;
enum class snapshot_detail;
struct site_change;
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

// interop
class device_limits;
inline namespace CUOTA_VIEWS {
template <class T>
class imported_buffer;
}  // namespace CUOTA_VIEWS
class pytorch_allocator;
class mpi_error;
class mpi_group;
class mpi_all_reduce;
class nccl_error;
class nccl_all_reduce;
class library_error;
class cufft_plan;

}  // namespace cuota::inline v0
