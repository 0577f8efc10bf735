// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Steps that repeat, served from one slab.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/pool/planning/plan_file.hpp>
#include <cuota/pool/planning/step_plan_stats.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class step_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::step_state>;
#endif

/// A step plan as a resource: an eight-byte handle that keeps the slab valid, but does not extend the plan's scope.
/// Order, threads, throws, cost: as `step_plan`. Example: tests/pool/planning/step_plan.cpp
class step_resource {
public:
    /// Blocks that captured streams free stay with the graph.
    static constexpr bool graph_aware_resource = true;
    /// Refers to the same plan; a move copies.
    step_resource(step_resource const&) noexcept = default;
    step_resource& operator=(step_resource const&) noexcept = default;  ///< same plan
    ~step_resource() = default;

    /// Allocates in the order of s.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in the order of s. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;
    /// Allocates upstream, outside the plan, for every stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory that no work uses.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept;
    /// Returns 256 bytes.
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return default_alignment; }
    /// kind of the upstream resource
    [[nodiscard]] memory_kind kind() const noexcept;
    /// Compares by plan.
    friend bool operator==(step_resource const&, step_resource const&) noexcept = default;

private:
    friend class step_plan;
    explicit step_resource(detail::intrusive_ptr<detail::step_state> state) noexcept
        : state_{std::move(state)} {}
    detail::intrusive_ptr<detail::step_state> state_;
};

/// A step of a program, from `step_plan::begin` to destruction. Move-only; empty if moved from. Threads: one at a time. Throws: nothing;
/// errors at its end go to the error sink.
/// Example: examples/replay_graph.cpp
class step_scope {
public:
    step_scope(step_scope&&) noexcept = default;  ///< the new owner ends the step
    /// Ends its step and takes ownership of the other.
    step_scope& operator=(step_scope&& other) noexcept;
    ~step_scope() { end(); }

    /// Returns whether the step is recorded.
    [[nodiscard]] bool is_recorded() const noexcept;

private:
    friend class step_plan;
    explicit step_scope(detail::intrusive_ptr<detail::step_state> state) noexcept
        : state_{std::move(state)} {}
    void end() noexcept;
    detail::intrusive_ptr<detail::step_state> state_;
};

/// Static memory planning for programs that repeat their allocations: one step is recorded, each of its requests gets an offset in one
/// slab, and later steps are served there.
///
/// The n-th request of a step gets the n-th offset if it has that size. If it has the size of one of the next 16 planned requests, it is
/// served as that one, and those before it are skipped. All other requests are served upstream, usually by a pool, and counted by reason:
/// also allocate_sync, alignments above 256, requests between steps, and those that were live when the recorded step ended. A block that
/// outlives its step keeps its bytes; the request planned there is served upstream.
///
/// The slab is one allocation upstream, made when the step after the recorded one begins. If it is refused, this and later steps are served
/// upstream; `prepare` throws the reason.
///
/// Units:   bytes; offsets in the slab are multiples of 256.
/// Order:   as scoped_pool. Reuse on another stream waits by events; the host does not wait.
/// In a `capture`, a planned step on one stream has its planned addresses as long as the graph exists: launches and steps wait for each
/// other. A request that deviates throws usage_error there, as does any request of a planned step on a native stream in a foreign capture.
/// Threads: any may allocate and free; one step at a time. Steps of several threads seldom repeat their order.
/// Throws:  as upstream; usage_error for an allocation after destruction. Invalid deallocations are reported to the error sink and ignored.
/// The destructor reports live blocks in the slab by tag, size and call site; they stay valid until their last owner is destroyed.
/// Cost:    no CUDA call and no lock for requests of one thread on one stream. The slab has exactly the plan's peak.
/// Example: examples/replay_trace.cpp
class step_plan {
public:
    /// Options.
    using options = step_plan_options;

    /// Constructs a plan; allocates nothing upstream yet. Throws: std::bad_alloc.
    explicit step_plan(any_resource upstream, options wanted = {});
    step_plan(step_plan const&) = delete;  // pass resource() instead
    step_plan& operator=(step_plan const&) = delete;
    ~step_plan();

    /// Begins a step, which ends with the returned object. The first is recorded; the next plans it and allocates the slab. A recording
    /// that an exception ends is discarded. Throws: usage_error if a step is open; cuda_error; std::bad_alloc. On a throw, no step has
    /// begun.
    [[nodiscard]] step_scope begin(source_location where = source_location::current());
    /// Discards the plan; the next step is recorded. Throws: usage_error in a step.
    void rerecord(source_location where = source_location::current());
    /// Plans the recorded step and allocates the slab, as `begin` does otherwise. On a throw, the recorded step is kept.
    /// Throws: out_of_memory if the slab is refused; usage_error in a step or without a recorded one; cuda_error.
    void prepare(source_location where = source_location::current());

    /// Returns a copy of the planned step; empty if none. Throws: std::bad_alloc.
    [[nodiscard]] planned_step planned() const;
    /// Saves the planned step. Throws: usage_error without one; data_error if the file cannot be written.
    void save(std::string const& path, source_location where = source_location::current()) const;
    /// Uses a saved plan. Strong guarantee. Throws: data_error with line and reason; usage_error in a step.
    void load(std::string const& path, source_location where = source_location::current());
    /// Uses a step of known requests, planned by `plan_requests`. Strong guarantee. Throws: as plan_requests; usage_error in a step.
    void set_plan(std::span<lifetime const> requests, plan_options const& how = {},
                  source_location where = source_location::current());

    /// Returns the plan as a resource, which may outlive it.
    [[nodiscard]] step_resource resource() const noexcept { return step_resource{state_}; }
    operator any_resource() const;  ///< same as resource()

    /// Returns a consistent snapshot.
    [[nodiscard]] step_plan_stats stats() const;
    /// Returns live blocks of earlier steps in the slab, and those that the recorded step left. Throws: std::bad_alloc.
    [[nodiscard]] std::vector<allocation_group> outlived() const;

private:
    detail::intrusive_ptr<detail::step_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/steps/step_state.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0 {

static_assert(labeled_resource<step_resource> && sizeof(step_resource) == 8);

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::step_state>;
#endif

CUOTA_INLINE void* step_resource::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                           label const& who) {
    state_->look_for_capture(s);
    if (rt::is_race_checked()) [[unlikely]]
        return rt::named_block(state_->server().allocate(s, bytes, alignment, who), bytes, who);
    return state_->server().allocate(s, bytes, alignment, who);
}

CUOTA_INLINE void step_resource::deallocate(stream_ref s, void* p, std::size_t bytes,
                                            std::size_t alignment) noexcept {
    state_->look_for_capture_of_end(s);
    state_->server().deallocate(s, p, bytes, alignment);
}

CUOTA_INLINE void* step_resource::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    return state_->server().allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void step_resource::deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
    state_->server().deallocate_sync(p, bytes, alignment);
}

CUOTA_INLINE memory_kind step_resource::kind() const noexcept { return state_->server().kind(); }

CUOTA_INLINE step_scope& step_scope::operator=(step_scope&& other) noexcept {
    if (this != &other) {
        end();
        state_ = std::move(other.state_);
    }
    return *this;
}

CUOTA_INLINE bool step_scope::is_recorded() const noexcept { return state_ && state_->is_recording(); }

CUOTA_INLINE void step_scope::end() noexcept {
    if (auto const ending = std::exchange(state_, {}); ending && !ending->is_of_parent()) ending->end_step();
}

CUOTA_INLINE step_plan::step_plan(any_resource upstream, options wanted)
    : state_{detail::intrusive_ptr<detail::step_state>::make(std::move(upstream), wanted)} {}

CUOTA_INLINE step_plan::~step_plan() {
    if (!state_->is_of_parent()) state_->close();
}

CUOTA_INLINE step_scope step_plan::begin(source_location where) {
    state_->begin_step(where);
    return step_scope{state_};
}

CUOTA_INLINE void step_plan::rerecord(source_location where) { state_->rerecord(where); }

CUOTA_INLINE void step_plan::prepare(source_location where) { state_->prepare(where); }

CUOTA_INLINE planned_step step_plan::planned() const { return state_->planned(); }

CUOTA_INLINE void step_plan::save(std::string const& path, source_location where) const {
    save_plan(state_->planned_or_throw(where), path);
}

CUOTA_INLINE void step_plan::load(std::string const& path, source_location where) {
    state_->use(load_plan(path), where);
}

CUOTA_INLINE void step_plan::set_plan(std::span<lifetime const> requests, plan_options const& how,
                                      source_location where) {
    state_->use(plan_requests(requests, how, where), where);
}

CUOTA_INLINE step_plan::operator any_resource() const { return resource(); }

CUOTA_INLINE step_plan_stats step_plan::stats() const { return state_->stats(); }

CUOTA_INLINE std::vector<allocation_group> step_plan::outlived() const { return state_->outlived(); }

}  // namespace cuota::inline v0

#endif
