// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Shared by the parts of gpu_truth: how a part fails, the patterns that kernels write and verify, and a kernel that delays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/simulator_hooks.hpp>
#include <cuota/runtime/stream.hpp>

namespace truth {

// ---- Outcomes of a part.

/// Thrown if a value is wrong; the text names it.
struct failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};
/// Thrown if the machine cannot run the part; the text has the reason.
struct skipped : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void expect(bool is_right, std::string const& otherwise) {
    if (!is_right) throw failed{otherwise};
}
template <class A, class B>
void expect_equal(std::string const& what, A const& got, B const& wanted) {
    if (!(got == wanted))
        throw failed{what + " is " + std::to_string(got) + ", expected " + std::to_string(wanted)};
}

/// printf into a string, for the facts of a part.
template <class... Values>
[[nodiscard]] std::string text(char const* format, Values... values) {
    char line[512];
    std::snprintf(line, sizeof line, format, values...);
    return line;
}

/// Returns a size for a GPU, or a smaller one for the simulated runtime.
template <class T>
[[nodiscard]] T on_a_gpu(T size, T simulated) {
    return cuota::is_simulated() ? simulated : size;
}

// ---- The parts. Each returns its facts, and throws if a value is wrong.

std::string shuffled_loader();
std::string converted_on_device();
std::string resident();
std::string capture_with_pool();
std::string planned_step_in_graph();
std::string pool_grows_and_trims();
std::string pool_maps_elsewhere();
std::string pool_divides_mappings();
std::string leases_on_streams();
std::string exact_training();
std::string limits_of_the_machine();
std::string memory_of_graphs();
std::string refusal_beside_process();
std::string kernel_that_traps();
std::string mixed_memory();

/// Number of blocks that leases_on_streams passes from one stream to another; 0: the default for the runtime.
inline std::uint64_t wanted_reuses = 0;

/// Run in child processes of this program, instead of the parts. Return the exit status.
int hold_memory(std::size_t bytes);
int trap_in_a_kernel();

// ---- Pseudo-random numbers by seed, equal on host and device.

/// SplitMix64's finalizer (Steele et al., 2014).
[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t x) {
    x = (x + 1) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}
/// Returns word i of the pattern of a seed.
[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint32_t word_of(std::uint64_t seed, std::uint64_t i) {
    return static_cast<std::uint32_t>(mixed(seed * 0xD1B54A32D192ED03 + i));
}

/// A sequence of pseudo-random numbers that is the same on every machine.
class random_numbers {
public:
    explicit random_numbers(std::uint64_t seed) : state_{mixed(seed)} {}
    [[nodiscard]] std::uint64_t next() { return mixed(state_++); }
    [[nodiscard]] std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

private:
    std::uint64_t state_;
};

// ---- Results of kernels that verify.

/// Counts of verifying kernels, and the first wrong word.
struct tally {
    unsigned long long checked;  ///< words; added by one thread of each kernel
    unsigned long long wrong;
    std::uint64_t seed, index;  ///< of the first wrong word
    std::uint32_t got, wanted;
};

/// Adds atomically to a number that several threads of one kernel may change. Returns the previous value.
CUOTA_HOST_DEVICE inline unsigned long long add_to(unsigned long long& number, unsigned long long more) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(&number, more);
#else
    unsigned long long const before = number;  // the simulator runs the indices of a kernel in sequence
    number += more;
    return before;
#endif
}
CUOTA_HOST_DEVICE inline void note_wrong(tally& in, std::uint64_t seed, std::uint64_t index,
                                         std::uint32_t got, std::uint32_t wanted) {
    if (add_to(in.wrong, 1) != 0) return;
    in.seed = seed;
    in.index = index;
    in.got = got;
    in.wanted = wanted;
}

class device_tally {
public:
    explicit device_tally(cuota::stream_ref home) : at_{1, home, cuota::device_memory{}, "tally"} {}

    [[nodiscard]] cuota::lease<tally> write(cuota::stream_ref s) { return at_.write(s); }
    /// Waits for the stream. Throws: failed if a word was wrong, or if the number of checked words differs from `checked`.
    void expect_right(cuota::stream_ref s, std::uint64_t checked, std::string const& what) const {
        tally const found = at_.to_vector(s)[0];
        if (found.wrong != 0)
            throw failed{
                what + ": " +
                text("%llu of %llu words are wrong; the first: word %llu of seed %llu is 0x%08x, expected "
                     "0x%08x",
                     found.wrong, found.checked, static_cast<unsigned long long>(found.index),
                     static_cast<unsigned long long>(found.seed), found.got, found.wanted)};
        expect_equal(what + ": words checked", found.checked, checked);
    }
    [[nodiscard]] tally read(cuota::stream_ref s) const { return at_.to_vector(s)[0]; }

private:
    cuota::device_buffer<tally> at_;
};

// ---- Kernels.

/// Keeps its stream busy: on a GPU for `microseconds` by the device's clock, on the simulator for a fraction of that.
struct delay {
    std::uint32_t microseconds;
    CUOTA_KERNEL void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
        unsigned long long begin, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        do {
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (now - begin < microseconds * 1000ULL);
#else
        for (std::uint32_t i = 0; i != microseconds * 20; ++i) asm volatile("");
#endif
    }
};
inline void enqueue_delay(cuota::stream_ref s, std::uint32_t microseconds) {
    cuota::for_each_index(s, 1, delay{microseconds}, "delay");
}

struct write_words {
    cuota::device_span<std::uint32_t> to;
    std::uint64_t seed;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = word_of(seed, i); }
};
struct verify_words {
    cuota::device_span<std::uint32_t const> from;
    std::uint64_t seed;
    cuota::device_span<tally> in;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        if (i == 0) add_to(in[0].checked, from.size());
        std::uint32_t const wanted = word_of(seed, i);
        if (from[i] != wanted) note_wrong(in[0], seed, i, from[i], wanted);
    }
};

inline void write_pattern(cuota::stream_ref s, cuota::device_buffer<std::uint32_t>& to, std::uint64_t seed) {
    cuota::for_each_index(s, to.size(), write_words{to.write(s), seed}, "write_words");
}
inline void verify_pattern(cuota::stream_ref s, cuota::device_buffer<std::uint32_t> const& from,
                           std::uint64_t seed, device_tally& in) {
    cuota::for_each_index(s, from.size(), verify_words{from.read(s), seed, in.write(s)}, "verify_words");
}

}  // namespace truth
