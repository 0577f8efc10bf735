// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Steps that are served from one slab: the first is recorded, those after it are the same.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/pool/plan_file.hpp>
#include <cuota/pool/step_plan_stats.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class step_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class shared<detail::step_state>;
#endif

/// A step plan as a resource: an eight-byte handle. Keeps the slab valid, not the plan's scope open.
/// Order, threads, throws, cost: those of `step_plan`. Example: tests/pool/step_plan.cpp
class step_resource {
public:
    /// What a captured stream gives back stays the graph's, as the concept of that name says.
    static constexpr bool keeps_for_graphs = true;
    /// The same plan; its move is a copy, so a handle that was moved from is still valid.
    step_resource(step_resource const&) noexcept = default;
    step_resource& operator=(step_resource const&) noexcept = default;  ///< the same plan as other
    ~step_resource() = default;

    /// Valid in s from here on: at its planned place, or served by what the plan stands on.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// In order of s. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;
    /// Valid on every stream at return; of what the plan stands on, and no part of the plan.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// For when all work on it was seen to end.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept;
    /// Bytes: 256.
    [[nodiscard]] static constexpr std::size_t granule() noexcept { return default_alignment; }
    /// That of what the plan stands on.
    [[nodiscard]] memory_kind kind() const noexcept;
    /// Whether both are one plan.
    friend bool operator==(step_resource const&, step_resource const&) noexcept = default;

private:
    friend class step_plan;
    explicit step_resource(shared<detail::step_state> state) noexcept : state_{std::move(state)} {}
    shared<detail::step_state> state_;
};

/// A step of a program: from `step_plan::begin` to the end of this scope. Move-only; moved-from is no step.
/// Threads: one at a time. Throws: nothing; what a step's end finds goes to the error sink.
/// Example: examples/replay_graph.cpp
class step_scope {
public:
    step_scope(step_scope&&) noexcept = default;  ///< the step ends with the new owner
    /// Ends the step that it was, and takes over the other.
    step_scope& operator=(step_scope&& other) noexcept;
    ~step_scope() { end(); }

    /// True for a step that is recorded, and served by what the plan stands on.
    [[nodiscard]] bool is_recorded() const noexcept;

private:
    friend class step_plan;
    explicit step_scope(shared<detail::step_state> state) noexcept : state_{std::move(state)} {}
    void end() noexcept;
    shared<detail::step_state> state_;
};

/// Memory for a program that does the same again and again, as training does: one step is recorded, a place in one slab
/// is planned for each of its requests, and the steps after it have them there.
///
/// The n-th request of a step goes to the n-th place if it has that size. One that does not is served by what the plan
/// stands on, mostly a pool, and counted by its reason; so are allocate_sync, requests between steps, and those that
/// were still alive when the recorded step ended. A request that has the size of one of the next 16 is taken for that:
/// those before it were left out. Nobody has bytes that are another's, whatever the program does: what outlives its
/// step keeps its bytes, and who would have had them is served elsewhere.
/// The slab is one allocation of what the plan stands on, so it is charged to that one's budget. It is taken when the
/// step after the recorded one begins; when it is refused, that step and those after it are served without it, and
/// `prepare` tells why.
///
/// Units:   bytes; places in the slab are multiples of 256.
/// Order:   memory is valid in the stream that asked; given back in the order of the stream that frees it. Bytes that
///          go from one stream to another wait by events, also from one step to the next; the host does not wait.
/// In a `capture`, a planned step has its addresses, on one stream, and they are the graph's as well while it is there: launches
/// and steps wait for each other. A request that deviates is misuse there.
/// Threads: any may ask and give back; one step at a time. The order of requests decides, so steps that several threads
///          share mostly do not repeat.
/// Throws:  as what it stands on; misuse when asked after its end. A wrong size, a pointer that is not alive or a second
///          release goes to the error sink as misuse, and changes nothing.
/// An alignment above 256 is no part of a plan: what it stands on honours that, or refuses it.
/// At its end what is still alive in the slab is reported by tag, size and place, and stays valid until its last owner
/// is gone.
/// Cost:    no CUDA call and no lock for requests of one thread on one stream. The slab has the peak of the plan, no byte
///          more.
/// Example: examples/replay_trace.cpp
class step_plan {
public:
    /// What it may be told.
    using options = step_plan_options;

    /// A plan over a resource, which serves what is recorded and what deviates, and gives the slab.
    /// Takes nothing yet. Throws: std::bad_alloc.
    explicit step_plan(any_resource upstream, options wanted = {});
    step_plan(step_plan const&) = delete;  // a scope is one place; hand on resource() instead
    step_plan& operator=(step_plan const&) = delete;
    ~step_plan();

    /// Begins a step, which ends with the scope. The first one is recorded; the next one plans it and takes the slab.
    /// A recorded step that an exception ends is forgotten, and the next one recorded instead.
    /// Throws: misuse when a step is open; cuda_error; std::bad_alloc: no step has begun then.
    [[nodiscard]] step_scope begin(place where = place::here());
    /// The next step is recorded and planned anew. Throws: misuse in a step.
    void record_again(place where = place::here());
    /// Plans the recorded step if it is not, and takes the slab if that is missing: what `begin` does otherwise.
    /// Throws: out_of_memory when the slab is refused; misuse in a step, or without a recorded one; cuda_error. The
    ///         recorded step is kept.
    void prepare(place where = place::here());

    /// The planned step, a copy; empty before the first is planned. Throws: std::bad_alloc.
    [[nodiscard]] planned_step planned() const;
    /// Saves the planned step. Throws: misuse when there is none; data_error when the file cannot be written.
    void save(std::string const& path, place where = place::here()) const;
    /// Takes a saved plan in place of a recorded step. Throws: data_error with line and reason; misuse in a step.
    /// Nothing has changed then.
    void load(std::string const& path, place where = place::here());
    /// Takes a step whose requests are known, as `plan_requests` lists and plans them, in place of a recorded one: not even the
    /// first step needs more than the slab. Throws: as plan_requests; misuse in a step. Nothing has changed then.
    void expect(std::span<lifetime const> requests, plan_options const& how = {},
                place where = place::here());

    /// The plan for those who take a resource. May outlive the scope; requests after its end are misuse.
    [[nodiscard]] step_resource resource() const noexcept { return step_resource{state_}; }
    operator any_resource() const;  ///< the same

    /// All of one instant.
    [[nodiscard]] step_plan_stats stats() const;
    /// What is alive of steps before this one: those with a place in the slab now, and, as they were then, those that
    /// the recorded step left alive. Throws: std::bad_alloc.
    [[nodiscard]] std::vector<holding> survivors() const;

private:
    shared<detail::step_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/step_state.hpp>

namespace cuota::inline v0 {

static_assert(labelled_resource<step_resource> && sizeof(step_resource) == 8);

#if CUOTA_SEPARATE
template class shared<detail::step_state>;
#endif

CUOTA_INLINE void* step_resource::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                           label const& who) {
    state_->look_for_capture(s);
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
    : state_{shared<detail::step_state>::make(std::move(upstream), wanted)} {}

CUOTA_INLINE step_plan::~step_plan() {
    if (!state_->is_of_parent()) state_->close();
}

CUOTA_INLINE step_scope step_plan::begin(place where) {
    state_->begin_step(where);
    return step_scope{state_};
}

CUOTA_INLINE void step_plan::record_again(place where) { state_->record_again(where); }

CUOTA_INLINE void step_plan::prepare(place where) { state_->prepare(where); }

CUOTA_INLINE planned_step step_plan::planned() const { return state_->planned(); }

CUOTA_INLINE void step_plan::save(std::string const& path, place where) const {
    save_plan(state_->planned_or_throw(where), path);
}

CUOTA_INLINE void step_plan::load(std::string const& path, place where) {
    state_->use(load_plan(path), where);
}

CUOTA_INLINE void step_plan::expect(std::span<lifetime const> requests, plan_options const& how,
                                    place where) {
    state_->use(plan_requests(requests, how, where), where);
}

CUOTA_INLINE step_plan::operator any_resource() const { return resource(); }

CUOTA_INLINE step_plan_stats step_plan::stats() const { return state_->stats(); }

CUOTA_INLINE std::vector<holding> step_plan::survivors() const { return state_->survivors(); }

}  // namespace cuota::inline v0

#endif
