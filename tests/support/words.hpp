// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Kernels over words of memory and their results, for tests of access order. Words have four bytes: ThreadSanitizer can miss a race on
/// single bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace support {

using word = std::uint32_t;

struct write_word {
    word* to;
    word value;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = value; }
};

struct add_word {
    word* to;
    word value;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] += value; }
};

struct copy_word {
    word* to;
    word const* from;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

struct check_word {
    word const* from;
    word value;
    word* wrong;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        if (from[i] != value) *wrong = 1;
    }
};

/// Fills the bytes first: the simulator's race checker sees the accesses of a fill, and not those of a kernel through a pointer.
inline void write_words(cuota::stream_ref s, void* to, std::size_t bytes, word value) {
    cuota::rt::fill_bytes(to, 0, bytes, s);
    cuota::for_each_index(s, bytes / sizeof(word), write_word{static_cast<word*>(to), value}, "write_words");
}

/// Returns the words of a block of device memory after the work enqueued on s.
inline std::vector<word> words(cuota::stream_ref s, void const* from, std::size_t bytes) {
    std::vector<word> host(bytes / sizeof(word));
    cuota::rt::copy_to_host(host.data(), from, bytes, s);
    s.synchronize();
    return host;
}

inline bool all_are(std::vector<word> const& words, word value) {
    if (words.empty()) return true;
    // Each word equals the next one: std::memcmp is fast under a sanitizer, too, where a loop takes a large part of a test's time.
    return words.front() == value &&
           std::memcmp(words.data(), words.data() + 1, (words.size() - 1) * sizeof(word)) == 0;
}

}  // namespace support
