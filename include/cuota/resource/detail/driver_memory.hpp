// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Base of the resources on one device's memory.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// Holds a device and counts the bytes that this process holds there.
template <memory_kind Kind, bool IsPooled = false>
class driver_memory {
public:
    /// Uses the current device. Throws: cuda_error.
    driver_memory() : driver_memory{cuota::device::current()} {}
    explicit driver_memory(cuota::device where) noexcept : where_{where} {}

    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return 512; }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return Kind; }
    [[nodiscard]] cuota::device device() const noexcept { return where_; }
    friend bool operator==(driver_memory, driver_memory) noexcept = default;

protected:
    // Returns the result of call(), made with the device current. If it is still null after all relief measures, throws the driver's
    // refusal.
    template <class Call>
    [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment, label const& who, char const* name,
                             Call call) {
        check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        device_scope const here{where_};
        std::size_t const taken = round_up(bytes, granularity());
        driver_relief relief{where_};
        void* const p = call_with_relief(relief, taken, [&] {
            return take_counted([&] { count(taken); }, [&] { uncount(taken); }, call);
        });
        if (p) return p;
        refuse_on(where_, bytes, granularity(), who, name, relief.told());
    }
    // Frees by call(p). If that returns false, p was not freed: it stays counted, and `call` has reported the failure.
    template <class Call>
    void give(void* p, std::size_t bytes, Call call) noexcept {
        if (p && call(p)) uncount(round_up(bytes, granularity()));
    }

private:
    void count(std::size_t bytes) const noexcept {
        count_taken(where_, bytes);
        if constexpr (IsPooled) taken_from_pool_of(where_) += bytes;
    }
    void uncount(std::size_t bytes) const noexcept {
        if constexpr (IsPooled) taken_from_pool_of(where_) -= bytes;
        count_given_back(where_, bytes);
    }

    cuota::device where_;
};

/// Throws usage_error if kernels of the stream's device cannot access p, which is memory of `where`. Throws also cuda_error.
void refuse_out_of_reach(device where, stream_ref s, void const* p, label const& who);

/// Resource on a synchronous driver call (Take) and cudaFree. deallocate waits for the stream, since CUDA does not guarantee that cudaFree
/// does.
template <memory_kind Kind, class Take>
class blocking_memory : public driver_memory<Kind> {
public:
    using driver_memory<Kind>::driver_memory;

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        void* const p = allocate_sync(bytes, alignment, who);
        if constexpr (Kind == memory_kind::device)
            if (p && s.is_owned() && s.device() != this->device()) [[unlikely]] {
                try {
                    refuse_out_of_reach(this->device(), s, p, who);
                } catch (...) {
                    deallocate_sync(p, bytes, alignment);
                    throw;
                }
            }
        return p;
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        if (p && rt::drain_to_free(s)) deallocate_sync(p, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        return this->take(bytes, alignment, who, Take::name, [&] {
            rt::set_call_site(who.where, who.name);
            return Take::from_driver(bytes);
        });
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        this->give(p, bytes, rt::device_free);
    }
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/peer_access.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_out_of_reach(device where, stream_ref s, void const* p, label const& who) {
    int const user = s.device().ordinal();
    if (rt::out_of_reach(device{user}, p))
        throw_usage_error(
            who.where,
            "device_memory: kernels of device {} cannot access memory of device {}; use a stream of "
            "device {}, or a scoped_pool with "
            "device {} in its `peers`",
            {user, where.ordinal(), where.ordinal(), user});
}

}  // namespace cuota::inline v0::detail

#endif
