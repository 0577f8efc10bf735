// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Shared by the fuzz targets: the input as a file, and the properties of a parser for any input.
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
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

#include "support/heap_watch.hpp"

/// libFuzzer's entry point. Returns 0; aborts if a property does not hold.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace fuzz {

/// Aborts, as libFuzzer requires, unless `holds`.
inline void expect(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
    std::abort();
}

inline std::string_view text_of(std::uint8_t const* data, std::size_t size) {
    return {reinterpret_cast<char const*>(data), size};
}

/// A file in memory that is refilled by each run; a new one per run would dominate the cost.
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
    /// Fills the file with `bytes` and returns it for reading.
    [[nodiscard]] cuota::file allocation_group(std::string_view bytes, std::string name = "input") const {
        fill(bytes);
        return cuota::file::adopt(::dup(descriptor_), std::move(name));
    }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
    int descriptor_;
};

/// Runs a parser on an input of `size` bytes. It must return, or throw a data_error whose offset lies within the input, and allocate at
/// most 8 KiB + factor * size of heap memory. Any other exception ends the program. Returns true if the parser returned.
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

/// Reads all samples of a dataset, field by field.
template <cuota::dataset S>
std::vector<std::vector<std::byte>> all_of(S const& from) {
    std::vector<std::uint64_t> samples(from.size());
    for (std::size_t i = 0; i != samples.size(); ++i)
        samples[i] = samples.size() - 1 - i;  // an order that is not that of the file
    std::vector<std::vector<std::byte>> fields;
    for (cuota::field const& f : std::span<cuota::field const>{from.fields()})
        fields.emplace_back(samples.size() * f.bytes());
    std::vector<std::span<std::byte>> const out{fields.begin(), fields.end()};
    from.gather(samples, out);
    return fields;
}

}  // namespace fuzz
