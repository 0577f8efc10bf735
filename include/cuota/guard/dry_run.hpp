// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Measures the peak memory of code by running it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/batch_fit.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Resource that returns addresses without memory, for code that does not run its kernels.
///
/// Addresses are multiples of 256 and of the granularity; this resource reuses none, and no system maps memory there. Host code that
/// accesses one faults; a copy, fill or kernel fails, which can destroy the context. So make buffers with `no_init`.
/// Units:   bytes, in multiples of the granularity.
/// Order:   none; makes no CUDA calls.
/// Threads: any.
/// Cost:    a lock per allocation.
/// Throws:  usage_error for an alignment above 256, or a granularity that is not a power of two; out_of_memory after 32 PiB.
/// Example: tests/guard/dry_run.cpp
class dry_run_memory {
public:
    /// granularity: that of the replaced resource.
    explicit dry_run_memory(std::size_t granularity = device_memory::granularity(),
                            source_location where = source_location::current());
    /// Shares the state, as does a move.
    dry_run_memory(dry_run_memory const&) noexcept = default;
    dry_run_memory& operator=(dry_run_memory const&) noexcept = default;  ///< shares the argument's state
    ~dry_run_memory() = default;

    /// Like allocate_sync; the stream is ignored.
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Does nothing.
    void deallocate(stream_ref, void*, std::size_t, std::size_t = default_alignment) noexcept {}
    /// Returns a new address; null for 0 bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Does nothing.
    void deallocate_sync(void*, std::size_t, std::size_t = default_alignment) noexcept {}

    [[nodiscard]] std::size_t granularity() const noexcept { return state_->granularity; }  ///< bytes
    /// Returns memory_kind::device.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::device; }
    /// Returns whether both share one state.
    friend bool operator==(dry_run_memory const&, dry_run_memory const&) noexcept = default;

private:
    struct state final : detail::ref_counted {
        explicit state(std::size_t g) noexcept : granularity{g} {}

        [[nodiscard]] void* take(std::size_t bytes, label const& who);
        [[noreturn]] void refuse(std::size_t bytes, label const& who) const;

        // The system's half of the address space. Bit 55 is set, since some machines ignore the bits above it; the last addresses are
        // omitted, so that no sum overflows. `begin` is a multiple of every `step`.
        static constexpr std::uintptr_t begin = 0xFF80'0000'0000'0000;
        static constexpr std::uintptr_t end = 0xFFFF'FFFF'F000'0000;
        std::size_t const granularity;
        detail::object_lock guard{};
        std::uintptr_t next = begin;
    };

    [[nodiscard]] static std::size_t checked(std::size_t granularity, source_location where);

    detail::intrusive_ptr<state> state_;
};

/// Runs `run(memory)`, with any number of threads, on addresses without memory and returns its exact use, which may exceed the machine's
/// memory.
///
///     usage_report const seen = dry_run([&](any_resource memory) { build_model(stream, memory); });
///     seen.footprint().check(budget);  // throws budget_exceeded
///
/// For copies, fills and kernels use `dry_run_on`. A deallocation counts when it is called.
/// granularity: that of the replaced resource.
/// Throws:  what the code throws. To see the use until then, run it on a `measured{dry_run_memory{}}`.
/// Cost:    two locks and a table entry per allocation.
template <std::invocable<measured<dry_run_memory>&> Run>
[[nodiscard]] usage_report dry_run(Run&& run, std::size_t granularity = device_memory::granularity()) {
    measured<dry_run_memory> memory{dry_run_memory{granularity}};
    std::forward<Run>(run)(memory);
    return memory.report();
}

/// Like dry_run, on memory of `upstream`: kernels, copies and fills run. Throws: as `run`.
template <resource Upstream, std::invocable<measured<Upstream>&> Run>
[[nodiscard]] usage_report dry_run_on(Upstream upstream, Run&& run) {
    measured<Upstream> memory{std::move(upstream)};
    std::forward<Run>(run)(memory);
    return memory.report();
}

/// Returns the largest batch size in [smallest, largest] for which a dry run of `run(batch, memory)` fits into the bytes that the budget
/// has available now. Charges nothing. A run with a refused allocation does not fit.
/// Throws:  usage_error for a range that is empty or begins at 0; other exceptions of a run.
/// Cost:    two dry runs, and one per halving of the range.
/// Example: tests/guard/dry_run.cpp
template <std::invocable<std::size_t, measured<dry_run_memory>&> Run>
[[nodiscard]] batch_fit largest_batch_that_fits(budget const& b, std::size_t smallest, std::size_t largest,
                                                Run&& run,
                                                std::size_t granularity = device_memory::granularity(),
                                                source_location where = source_location::current()) {
    if (smallest == 0 || smallest > largest)
        detail::throw_usage_error(where,
                                  "largest_batch_that_fits: batch range [{}, {}] is empty or begins at 0",
                                  {detail::as_count(smallest), detail::as_count(largest)});
    auto const peak_of = [&](std::size_t batch) {
        try {
            return dry_run([&](auto& memory) { run(batch, memory); }, granularity).peak;
        } catch (out_of_memory const&) { return unlimited; }
    };
    batch_fit found;
    found.available = b.available();
    auto const fits = [&](std::size_t batch) {
        std::size_t const peak = peak_of(batch);
        ++found.runs;
        if (peak < found.bytes || (found.next != 0 && peak > found.next_bytes)) found.is_monotone = false;
        bool const fit = peak != unlimited && peak <= found.available;
        (fit ? found.batch : found.next) = batch;
        (fit ? found.bytes : found.next_bytes) = peak;
        return fit;
    };
    if (!fits(smallest) || smallest == largest || fits(largest)) return found;
    while (found.next - found.batch > 1) fits(found.batch + (found.next - found.batch) / 2);
    return found;
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <bit>

namespace cuota::inline v0 {

static_assert(labeled_resource<dry_run_memory> && device_accessible_resource<dry_run_memory>);
static_assert(!host_accessible_resource<dry_run_memory> && sizeof(dry_run_memory) == 8);

CUOTA_INLINE dry_run_memory::dry_run_memory(std::size_t granularity, source_location where)
    : state_{detail::intrusive_ptr<state>::make(checked(granularity, where))} {}

CUOTA_INLINE void* dry_run_memory::allocate(stream_ref, std::size_t bytes, std::size_t alignment,
                                            label const& who) {
    return allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void* dry_run_memory::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    detail::check_alignment(alignment, who);
    return bytes == 0 ? nullptr : state_->take(bytes, who);
}

CUOTA_INLINE void* dry_run_memory::state::take(std::size_t bytes, label const& who) {
    std::size_t const step = granularity < default_alignment ? default_alignment : granularity;
    std::size_t const size = round_up(bytes, step);
    detail::region_lock const lock{guard};
    if (size > end - next) refuse(bytes, who);
    return std::bit_cast<void*>(std::exchange(next, next + size));
}

CUOTA_INLINE void dry_run_memory::state::refuse(std::size_t bytes, label const& who) const {
    refusal r = detail::driver_refusal(bytes, granularity, who,
                                       "dry_run: the address range has " + bytes_text(end - begin));
    r.max_fit = round_down(end - next, granularity);
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE std::size_t dry_run_memory::checked(std::size_t granularity, source_location where) {
    if (is_power_of_two(granularity)) return granularity;
    detail::throw_usage_error(where, "a granularity of {} is not a power of two",
                              {detail::as_bytes(granularity)});
}

}  // namespace cuota::inline v0

#endif
