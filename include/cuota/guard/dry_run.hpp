// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a piece of code needs at its peak, found by running it, on addresses without memory or on real memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Addresses, and no memory behind them: for code that allocates and releases but does not run its kernels.
///
/// Aligned to 256 bytes and to the granule, distinct from each other and from every address of the process: they lie
/// where no system maps memory for programs. Nothing may be read or written there. Host code that does faults at
/// once; a copy, a fill or a kernel fails as CUDA fails for a bad address, which can end the context. So make buffers
/// of it with `no_init`, and do not launch what works on them.
///
/// Shared state: copies are the same. An address is given once and never again.
/// Units:   bytes, accounted in multiples of the granule.
/// Order:   none; it makes no CUDA call.
/// Threads: any.
/// Cost:    of an allocation a lock and an addition; of a release nothing.
/// Throws:  misuse for an alignment above 256, and for a granule that is no power of two; out_of_memory after
///          32 PiB in all.
/// Example: tests/guard/dry_run.cpp
class addresses_only {
public:
    /// granule: what requests are rounded up to, as those of the source that it stands for.
    explicit addresses_only(std::size_t granule = device_memory::granule(), place where = place::here());
    /// The same supply; its move is a copy, so a handle that was moved from is still valid.
    addresses_only(addresses_only const&) noexcept = default;
    addresses_only& operator=(addresses_only const&) noexcept = default;  ///< the same supply as other
    ~addresses_only() = default;

    /// An address for every stream, as allocate_sync.
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Nothing: an address is not given again.
    void deallocate(stream_ref, void*, std::size_t, std::size_t = default_alignment) noexcept {}
    /// An address that was never given before; null for zero bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Nothing, likewise.
    void deallocate_sync(void*, std::size_t, std::size_t = default_alignment) noexcept {}

    [[nodiscard]] std::size_t granule() const noexcept { return state_->granule; }  ///< bytes
    /// As memory that only a device can reach.
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::device; }
    /// Whether both give of one supply.
    friend bool operator==(addresses_only const&, addresses_only const&) noexcept = default;

private:
    struct state final : ref_counted {
        explicit state(std::size_t g) noexcept : granule{g} {}

        [[nodiscard]] void* take(std::size_t bytes, label const& who);
        [[noreturn]] void refuse(std::size_t bytes, label const& who) const;

        // The upper half of what 64 bits can say belongs to the system. Bit 55 set, since the bits above it are no
        // part of an address on some machines; the very last addresses are left out, so that no sum wraps.
        // Its start is a multiple of every step that fits into it, and so is what comes after a whole step.
        static constexpr std::uintptr_t begin = 0xFF80'0000'0000'0000;
        static constexpr std::uintptr_t end = 0xFFFF'FFFF'F000'0000;
        std::size_t const granule;
        detail::object_lock guard{};
        std::uintptr_t next = begin;
    };

    [[nodiscard]] static std::size_t checked(std::size_t granule, place where);

    shared<state> state_;
};

/// Runs `run(memory)` on addresses without memory, and tells what it would have taken: exactly, under any number of
/// threads. No memory is taken, so that it can be larger than the machine.
///
///     usage_report const seen = dry_run([&](any_resource memory) { build_model(stream, memory); });
///     seen.footprint().check(budget);  // throws budget_exceeded
///
/// The code may allocate and release, make pools over the memory, and make buffers with `no_init`; copies, fills and
/// kernels on them are what `dry_run_on` is for. A release counts when it is called.
/// granule: what each allocation is rounded up to.
/// Throws: what the code throws, and nothing stays behind. To see what it had taken by then, make a
///         `measured{addresses_only{}}`, run the code on it, and ask for its report.
/// Cost:   of an allocation two locks and a table entry; what the code does on the host runs.
template <std::invocable<measured<addresses_only>&> Run>
[[nodiscard]] usage_report dry_run(Run&& run, std::size_t granule = device_memory::granule()) {
    measured<addresses_only> memory{addresses_only{granule}};
    std::forward<Run>(run)(memory);
    return memory.report();
}

/// As dry_run, on the memory of `upstream`: kernels, copies and fills run, and the memory is really taken. On the
/// simulated device that needs no GPU.
///
///     usage_report const seen = dry_run_on(device_memory{}, [&](any_resource memory) { step(stream, memory); });
///
/// Throws: as dry_run, and what upstream throws.
template <resource Upstream, std::invocable<measured<Upstream>&> Run>
[[nodiscard]] usage_report dry_run_on(Upstream upstream, Run&& run) {
    measured<Upstream> memory{std::move(upstream)};
    std::forward<Run>(run)(memory);
    return memory.report();
}

/// What dry runs of several batches found. Bytes are peaks. Example: tests/guard/dry_run.cpp
struct tried_fit {
    std::size_t batch = 0;       ///< the largest that was run and fitted; 0 when the smallest did not
    std::size_t bytes = 0;       ///< what it took
    std::size_t next = 0;        ///< the next larger: it was run and did not fit; 0 when the largest fitted
    std::size_t next_bytes = 0;  ///< what that took; `unlimited` when it was refused while it ran
    std::size_t room = 0;        ///< what the budget had at the start
    std::size_t runs = 0;        ///< how many batches were run, each once
    bool is_monotone = true;     ///< false when a larger batch was seen to take less: one larger yet may fit
};

/// The largest batch from `smallest` to `largest` for which `run(batch, memory)` fits into the budget's room as of the
/// start, found by dry runs on addresses without memory. Only what was run is answered: nothing is extrapolated.
/// Charges nothing. A run that is refused memory does not fit.
/// Throws: what a run throws else; misuse for a range without a batch.
/// Cost:   two dry runs, and one for each halving of the range.
/// Example: tests/guard/dry_run.cpp
template <std::invocable<std::size_t, measured<addresses_only>&> Run>
[[nodiscard]] tried_fit largest_batch_that_fits(budget const& b, std::size_t smallest, std::size_t largest,
                                                Run&& run, std::size_t granule = device_memory::granule(),
                                                place where = place::here()) {
    if (smallest == 0 || smallest > largest)
        detail::throw_misuse(where, "there is no batch from {} to {}",
                             {detail::as_count(smallest), detail::as_count(largest)});
    auto const peak_of = [&](std::size_t batch) {
        try {
            return dry_run([&](auto& memory) { run(batch, memory); }, granule).peak;
        } catch (out_of_memory const&) { return unlimited; }
    };
    tried_fit found;
    found.room = b.room();
    auto const fits = [&](std::size_t batch) {
        std::size_t const peak = peak_of(batch);
        ++found.runs;
        if (peak < found.bytes || (found.next != 0 && peak > found.next_bytes)) found.is_monotone = false;
        bool const fit = peak != unlimited && peak <= found.room;
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

static_assert(labelled_resource<addresses_only> && device_resource<addresses_only>);
static_assert(!host_resource<addresses_only> && sizeof(addresses_only) == 8);

CUOTA_INLINE addresses_only::addresses_only(std::size_t granule, place where)
    : state_{shared<state>::make(checked(granule, where))} {}

CUOTA_INLINE void* addresses_only::allocate(stream_ref, std::size_t bytes, std::size_t alignment,
                                            label const& who) {
    return allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void* addresses_only::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    detail::check_alignment(alignment, who);
    return bytes == 0 ? nullptr : state_->take(bytes, who);
}

CUOTA_INLINE void* addresses_only::state::take(std::size_t bytes, label const& who) {
    std::size_t const step = granule < default_alignment ? default_alignment : granule;
    std::size_t const size = round_up(bytes, step);
    detail::region_lock const lock{guard};
    if (size > end - next) refuse(bytes, who);
    return std::bit_cast<void*>(std::exchange(next, next + size));
}

CUOTA_INLINE void addresses_only::state::refuse(std::size_t bytes, label const& who) const {
    refusal r =
        detail::driver_refusal(bytes, granule, who, "a dry run has addresses for " + bytes_text(end - begin));
    r.would_fit = round_down(end - next, granule);
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE std::size_t addresses_only::checked(std::size_t granule, place where) {
    if (is_power_of_two(granule)) return granule;
    detail::throw_misuse(where, "a granule of {} is no power of two", {detail::as_bytes(granule)});
}

}  // namespace cuota::inline v0

#endif
