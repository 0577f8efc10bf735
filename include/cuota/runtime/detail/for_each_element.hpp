// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory-bound kernels over the elements of arrays.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/detail/kernel_launch.hpp>
#include <cuota/runtime/detail/warp.hpp>

namespace cuota::inline v0::detail {

/// The widest access of a thread, and its alignment.
inline constexpr std::size_t widest_access = 16;

template <class T>
inline constexpr std::size_t size_of = sizeof(T);
template <>
inline constexpr std::size_t size_of<void> = 0;

/// Returns the elements per pack for arrays with elements of `a` and `b` bytes (0: no array): packs of the wider type have 16 bytes or
/// more, those of the narrower one 4 or more. 0 for sizes that do not divide 16.
[[nodiscard]] constexpr std::size_t pack_of(std::size_t a, std::size_t b) noexcept {
    std::size_t const wide = std::max(a, b);
    std::size_t const narrow = std::min(a, b) == 0 ? wide : std::min(a, b);
    if (!std::has_single_bit(wide) || !std::has_single_bit(narrow) || wide > widest_access) return 0;
    return std::max(widest_access / wide, narrow < 4 ? 4 / narrow : 1);
}

template <class T, std::size_t P, bool IsWide>
struct alignas(IsWide ? std::min(P * sizeof(T), widest_access) : alignof(T)) element_pack {
    T at[P];
};

[[noreturn]] void refuse_misaligned(void const* p, std::size_t wanted);

/// A misaligned access stops the kernel, as on a GPU.
CUOTA_NO_EXEC_CHECK
template <class Pack, class T>
[[nodiscard]] CUOTA_KERNEL Pack* pack_at(T* p) {
#if !defined(__CUDA_ARCH__)
    if (reinterpret_cast<std::uintptr_t>(p) % alignof(Pack) != 0) refuse_misaligned(p, alignof(Pack));
#endif
    return reinterpret_cast<Pack*>(p);
}

#if defined(__CUDA_ARCH__)
// nvcc stores the members of a struct one by one.
__device__ inline void store_words(void* to, unsigned const (&w)[1]) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(w[0]) : "memory");
}
__device__ inline void store_words(void* to, unsigned const (&w)[2]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(w[0]), "r"(w[1])
                 : "memory");
}
__device__ inline void store_words(void* to, unsigned const (&w)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(w[0]),
                 "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}
#endif

template <class T, std::size_t P, bool IsWide>
CUOTA_KERNEL void store(element_pack<T, P, IsWide> const& from, T* to) {
#if defined(__CUDA_ARCH__)
    constexpr std::size_t each = sizeof from < widest_access ? sizeof from : widest_access;
    if constexpr (IsWide && each % 4 == 0) {
        for (std::size_t at = 0; at != sizeof from; at += each) {
            unsigned words[each / 4];
            memcpy(words, reinterpret_cast<char const*>(&from) + at, each);
            store_words(reinterpret_cast<char*>(to) + at, words);
        }
        return;
    }
#endif
    *pack_at<element_pack<T, P, IsWide>>(to) = from;
}

/// Elements 0 to count - 1 of arrays: `head` elements, `packs` packs that are aligned in every array, and the rest.
struct pack_split {
    std::size_t count = 0;
    std::size_t head = 0;
    std::size_t packs = 0;

    /// Addresses and element sizes of two arrays; size 0 without one.
    struct arrays {
        void const* a;
        std::size_t a_size;
        void const* b;
        std::size_t b_size;
    };
    [[nodiscard]] static pack_split of(std::size_t count, std::size_t each, arrays const& of) noexcept {
        auto const is_aligned = [each](void const* p, std::size_t offset, std::size_t size) {
            return size == 0 || (reinterpret_cast<std::uintptr_t>(p) + offset * size) %
                                        std::min(each * size, widest_access) ==
                                    0;
        };
        for (std::size_t head = 0; head != each && head < count; ++head)
            if (is_aligned(of.a, head, of.a_size) && is_aligned(of.b, head, of.b_size))
                return {count, head, (count - head) / each};
        return {count, count, 0};
    }
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t begin(std::size_t pack,
                                                                std::size_t each) const noexcept {
        return head + pack * each;
    }
    /// Returns the number of elements outside of packs.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t singles(std::size_t each) const noexcept {
        return count - packs * each;
    }
    /// Returns the k-th of those.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t single(std::size_t k,
                                                                 std::size_t each) const noexcept {
        return k < head ? k : k + packs * each;
    }
};

template <class From, class To, class F>
struct each_element {
    static constexpr std::size_t pack = pack_of(size_of<From>, size_of<To>);

    From const* from;
    To* to;
    pack_split split;
    F f;

    CUOTA_KERNEL void operator()(kernel_thread t) {
        if constexpr (pack != 0)
            run<pack, true>(t, split.packs, [this](std::size_t k) { return split.begin(k, pack); });
        run<1, false>(t, split.singles(pack), [this](std::size_t k) { return split.single(k, pack); });
        if constexpr (requires(warp const& w) { f.finish(w); }) f.finish(warp{t});
    }

private:
    template <std::size_t P, bool IsWide, class Where>
    CUOTA_KERNEL void run(kernel_thread t, std::size_t n, Where where) {
        using input = std::conditional_t<std::is_void_v<From>, char, From>;
        // Packs that a thread loads before it stores the first.
        constexpr std::size_t under_way = P == 1 ? 4 : P <= 4 ? 2 : 1;
        for (std::size_t k = t.index; k < n; k += under_way * t.count) {
            element_pack<input, P, IsWide> in[under_way]{};
            if constexpr (!std::is_void_v<From>)
                for (std::size_t u = 0; u != under_way; ++u)
                    if (std::size_t const mine = k + u * t.count; mine < n)
                        in[u] = *pack_at<element_pack<input, P, IsWide> const>(from + where(mine));
            for (std::size_t u = 0; u != under_way; ++u)
                if (std::size_t const mine = k + u * t.count; mine < n) use<IsWide>(where(mine), in[u].at);
        }
    }
    template <bool IsWide, std::size_t P, class Input>
    CUOTA_KERNEL void use(std::size_t first, Input const (&in)[P]) {
        if constexpr (std::is_void_v<To>) {
            for (std::size_t i = 0; i != P; ++i) f(first + i, in[i]);
        } else {
            element_pack<To, P, IsWide> out;
            for (std::size_t i = 0; i != P; ++i) {
                if constexpr (std::is_void_v<From>) out.at[i] = f(first + i);
                else out.at[i] = f(first + i, in[i]);
            }
            store(out, to + first);
        }
    }
};

template <class From, class To, class F>
inline constexpr unsigned least_resident<each_element<From, To, F>> = 8;

/// Enqueues to[i] = f(i, from[i]) for every i < n, in accesses of 16 bytes where aligned. With From = void, calls f(i); with To = void, f
/// writes nothing. Each thread has a copy of f, and finally calls f.finish(warp) if that exists. `to` may equal `from`, but not overlap it
/// otherwise.
/// Order, threads, throws: see for_each_index.
template <class From, class To, class F>
void for_each_element(stream_ref s, std::size_t n, From const* from, To* to, F f, char const* name,
                      source_location where = source_location::current()) {
    using body = each_element<From, To, F>;
    if (n == 0) return;
    auto const split = pack_split::of(n, body::pack, {from, size_of<From>, to, size_of<To>});
    std::size_t const threads = std::max(split.packs, split.singles(body::pack));
    launch_kernel(s, kernel_grid::of(threads, true), body{from, to, split, std::move(f)}, name, where);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_misaligned(void const* p, std::size_t wanted) {
    throw_usage_error("a kernel's access at {} is not aligned to {} bytes",
                      {reinterpret_cast<std::uintptr_t>(p), wanted});
}

}  // namespace cuota::inline v0::detail

#endif
