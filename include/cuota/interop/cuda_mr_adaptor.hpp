// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Adapts CCCL's memory resources (`cuda::mr`) to cuota. Requires CCCL. The reverse: cuda_mr.hpp.
#pragma once

#include <cuota/interop/cuda_mr_concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/simulator_hooks.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

// For the text of a refusal.
struct cuda_mr_request {
    std::size_t bytes;
    std::size_t granularity;
    label who;
    std::optional<device> on;  // for device memory

    [[noreturn, gnu::cold]] void refuse(std::string cause) const {
        refusal r = driver_refusal(bytes, granularity, who, std::move(cause));
        if (on) r.device = facts_of(*on);
        throw out_of_memory{std::move(r)};
    }
    // Throws cuota's refusal from inside the CCCL resource, with this request's label if it has a name.
    template <class Refused>
    [[noreturn, gnu::cold]] void refuse_as(Refused const& inner) const {
        if (who.name.is_empty()) throw inner;
        refusal r = inner.info();
        r.request = who;
        throw Refused{std::move(r)};
    }
};

// The cudaError_t. Before CCCL 3.1 only the text contains it.
template <class CudaError>
[[nodiscard]] int code_of(CudaError const& error) {
    int code = cudaErrorUnknown;
    if constexpr (requires { error.status(); }) code = static_cast<int>(error.status());
    else std::sscanf(error.what(), "cudaError %d", &code);
    return code;
}

struct cuda_mr_error_policy {
    [[noreturn]] static void raise(cuda_mr_request const& request) {
        try {
            throw;
        } catch (budget_exceeded const& refused) {
            request.refuse_as(refused);
        } catch (out_of_memory const& refused) {
            request.refuse_as(refused);
        } catch (std::bad_alloc const& error) {
            request.refuse(std::string{"the cuda::mr resource threw "} + error.what());
        } catch (::cuda::cuda_error const& error) {
            int const code = code_of(error);
            if (code == cudaErrorMemoryAllocation)
                request.refuse(std::string{"the cuda::mr resource threw "} + error.what());
            throw cuda_error{code, "cuda::mr resource", error.what(), request.who.where};
        } catch (std::invalid_argument const& error) {
            throw_usage_error(request.who.where, "cuda::mr resource: invalid argument: {}", {error.what()});
        }
    }
};

template <class R>
[[nodiscard]] consteval bool is_told_to_be(memory_kind kind) {
    if constexpr (!is_device_accessible<R>) return false;
    else return kind == memory_kind::device || is_host_accessible<R>;
}

}  // namespace detail

/// A CCCL resource as a cuota resource. Made by from_cuda_mr. Copies share one state; R need not be copyable.
///
/// Order:   that of R, which is called with its device current. If R is synchronous only, the host waits for the stream before a
///          deallocation.
/// Threads: any, if R allows it.
/// Throws:  out_of_memory for std::bad_alloc, cudaErrorMemoryAllocation and null; cuda_error for cuda::cuda_error; usage_error for an
///          alignment above 256 or one that R does not honor, and for std::invalid_argument. Other exceptions of R pass unchanged. On
///          failure, nothing is allocated. Exceptions of a deallocation go to the error sink.
/// Units:   bytes, charged in multiples of the granularity.
/// Cost:    that of R.
/// Example: see from_cuda_mr; tests/interop/cuda_mr_adaptor.cpp
template <any_cuda_mr R, memory_kind Kind = memory_kind::device, class Errors = detail::cuda_mr_error_policy>
class cuda_mr_upstream {
    static_assert(detail::is_told_to_be<R>(Kind),
                  "the cuda::mr resource lacks the properties of this kind of memory: device memory is "
                  "device_accessible, pinned and managed memory is host_accessible, too");

public:
    /// `granularity` is that of R, which cannot be queried: CUDA's pools and cudaMalloc use 512, RMM's resources 256. Throws: usage_error
    /// if it is not a power of two; std::bad_alloc.
    cuda_mr_upstream(R inside, std::size_t granularity, cuota::device on,
                     source_location where = source_location::current())
        : state_{detail::intrusive_ptr<state>::make(std::move(inside), granularity, on)} {
        if (!is_power_of_two(granularity))
            detail::throw_usage_error(where, "cuda::mr resource: granularity {} is not a power of two",
                                      {granularity});
    }
    /// Refers to the same memory. A move copies.
    cuda_mr_upstream(cuda_mr_upstream const&) noexcept = default;
    cuda_mr_upstream& operator=(cuda_mr_upstream const&) noexcept = default;  ///< refers to the same memory
    ~cuda_mr_upstream() = default;

    /// Allocates in the order of s, or synchronously if R supports only that. Returns null for 0 bytes.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        if constexpr (detail::cuda_mr_stream_ordered<R>)
            return take(
                bytes, alignment, who,
                [&](R& r) { return detail::take_in_order(r, s.get(), bytes, alignment); },
                [&](R& r, void* p) { detail::give_in_order(r, s.get(), p, bytes, alignment); });
        else return allocate_sync(bytes, alignment, who);
    }
    /// Deallocates in the order of s, with the arguments of the allocation.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        if constexpr (detail::cuda_mr_stream_ordered<R>)
            give(p, bytes, [&](R& r) { detail::give_in_order(r, s.get(), p, bytes, alignment); });
        else if (p && rt::drain_to_free(s)) deallocate_sync(p, bytes, alignment);
    }
    /// Allocates memory that is valid on every stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        return take(
            bytes, alignment, who, [&](R& r) { return detail::take_at_once(r, bytes, alignment); },
            [&](R& r, void* p) { detail::give_at_once(r, p, bytes, alignment); });
    }
    /// All uses must have finished.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        give(p, bytes, [&](R& r) { detail::give_at_once(r, p, bytes, alignment); });
    }

    [[nodiscard]] std::size_t granularity() const noexcept { return state_->granularity; }  ///< bytes
    /// Accessibility of the memory.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return Kind; }
    /// The device of R.
    [[nodiscard]] cuota::device device() const noexcept requires(Kind != memory_kind::pinned) {
        return state_->on;
    }
    [[nodiscard]] R const& inside() const noexcept { return state_->inside; }  ///< R itself

    /// Returns whether either can deallocate the other's memory.
    friend bool operator==(cuda_mr_upstream const& a, cuda_mr_upstream const& b) {
        return a.state_ == b.state_ || (a.state_->on == b.state_->on && a.state_->inside == b.state_->inside);
    }

private:
    struct state final : detail::ref_counted {
        state(R r, std::size_t g, cuota::device d) : inside{std::move(r)}, granularity{g}, on{d} {}
        R inside;
        std::size_t granularity;
        cuota::device on;
    };

    template <class Take, class Give>
    [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment, label const& who, Take const& call,
                             Give const& undo) {
        detail::check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        detail::cuda_mr_request const request{bytes, granularity(), who, on_device()};
        // Some resources do not check for overflow.
        if (bytes > std::numeric_limits<std::size_t>::max() / 2)
            request.refuse("more than any machine has; the cuda::mr resource was not called");
        device_scope const here{state_->on};
        std::size_t const cost = round_up(bytes, granularity());
        count(cost);
        try {
            rt::set_call_site(who.where, who.name);
            void* const p = call(state_->inside);
            if (!p) request.refuse("the cuda::mr resource returned null");
            check_place_of(p, alignment, who, undo);
            return p;
        } catch (...) {
            uncount(cost);
            Errors::raise(request);
        }
    }
    // Some resources ignore the alignment.
    template <class Give>
    void check_place_of(void* p, std::size_t alignment, label const& who, Give const& undo) {
        if (reinterpret_cast<std::uintptr_t>(p) % alignment == 0) return;
        undo(state_->inside, p);
        detail::throw_usage_error(
            who.where, "cuda::mr resource: returned memory is not aligned to the requested {}", {alignment});
    }
    template <class Give>
    void give(void* p, std::size_t bytes, Give const& call) noexcept {
        if (!p || detail::process_number::is_cuda_of_parent()) return;
        std::optional<device_scope> here;
        // Continues after a failure: the memory must not leak.
        report_failure_of([&] { here.emplace(state_->on); });
        if (report_failure_of([&] { call(state_->inside); })) uncount(round_up(bytes, granularity()));
    }

    [[nodiscard]] std::optional<cuota::device> on_device() const noexcept {
        if constexpr (Kind == memory_kind::pinned) return std::nullopt;
        else return state_->on;
    }
    // A device's budget must not attribute these bytes to other programs.
    void count(std::size_t bytes) const noexcept {
        if constexpr (Kind != memory_kind::pinned) detail::count_taken(state_->on, bytes);
    }
    void uncount(std::size_t bytes) const noexcept {
        if constexpr (Kind != memory_kind::pinned) detail::count_given_back(state_->on, bytes);
    }

    detail::intrusive_ptr<state> state_;
};

/// Adapts a CCCL resource of kind Kind to cuota.
///
///     cuota::budgeted limited{budget, cuota::from_cuda_mr(cuda::device_memory_pool_ref{...}, 512)};
///     cuota::scoped_pool pinned{cuota::from_cuda_mr<memory_kind::pinned>(theirs)};
/// `on` is the device that is current when r is called. `granularity`, throws: as cuda_mr_upstream.
/// Cost:    a small object on the heap.
template <memory_kind Kind = memory_kind::device, any_cuda_mr R>
[[nodiscard]] auto from_cuda_mr(R r, std::size_t granularity, device on,
                                source_location where = source_location::current()) {
    return cuda_mr_upstream<R, Kind>{std::move(r), granularity, on, where};
}
/// Same, on the thread's current device. Throws: also cuda_error.
template <memory_kind Kind = memory_kind::device, any_cuda_mr R>
[[nodiscard]] auto from_cuda_mr(R r, std::size_t granularity = 512,
                                source_location where = source_location::current()) {
    return cuda_mr_upstream<R, Kind>{std::move(r), granularity, device::current(), where};
}

}  // namespace cuota::inline v0
