// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the targets share: the input as a file, and what must hold of a parser whatever it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/file.hpp>
#include <cuota/data/source.hpp>

#include "support/heap_watch.hpp"

/// The entrance that libFuzzer calls. Returns 0; ends the program when something does not hold.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace fuzz {

/// Ends the program, as libFuzzer wants it, unless `holds`.
inline void expect(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
    std::abort();
}

inline std::string_view text_of(std::uint8_t const* data, std::size_t size) {
    return {reinterpret_cast<char const*>(data), size};
}

/// A file in memory that each run fills anew: a new one for each would cost more than all else.
class memory_file {
public:
    memory_file() : descriptor_{::memfd_create("fuzz", MFD_CLOEXEC)} {
        expect(descriptor_ >= 0, "memfd_create");
    }
    memory_file(memory_file const&) = delete;
    memory_file& operator=(memory_file const&) = delete;
    ~memory_file() { ::close(descriptor_); }

    void fill(std::string_view bytes) const {
        expect(::ftruncate(descriptor_, static_cast<off_t>(bytes.size())) == 0, "ftruncate");
        auto const put = ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
        expect(put == static_cast<ssize_t>(bytes.size()), "pwrite");
    }
    /// Filled with these bytes, to be read as any file.
    [[nodiscard]] cuota::file holding(std::string_view bytes, std::string name = "input") const {
        fill(bytes);
        return cuota::file::adopt(::dup(descriptor_), std::move(name));
    }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

/// Runs a parser on an input of `size` bytes: it returns, or throws a data_error that points into the input, and takes
/// from the heap at most 8 KiB and `factor` times the input. Any other exception ends the program. True when it returned.
template <class Parse>
bool is_read_or_refused(std::size_t size, std::size_t factor, Parse&& parse) {
    support::heap_watch const watch;
    bool is_read = true;
    try {
        parse();
    } catch (cuota::data_error const& error) {
        is_read = false;
        expect(error.offset() <= size, "an error points into the input");
    }
    expect(watch.total() <= 8192 + factor * size, "no more memory than the input justifies");
    return is_read;
}

/// Everything that a source has, field by field.
template <cuota::source S>
std::vector<std::vector<std::byte>> all_of(S const& from) {
    std::vector<std::uint64_t> samples(from.size());
    for (std::size_t i = 0; i != samples.size(); ++i)
        samples[i] = samples.size() - 1 - i;  // as no file has them
    std::vector<std::vector<std::byte>> fields;
    for (cuota::field const& f : std::span<cuota::field const>{from.fields()})
        fields.emplace_back(samples.size() * f.bytes());
    std::vector<std::span<std::byte>> const out{fields.begin(), fields.end()};
    from.gather(samples, out);
    return fields;
}

}  // namespace fuzz
