// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <cuota/data/datasets/dataset.hpp>

namespace support {

/// Returns bytes whose pattern has no period of 256 or of a power of two.
inline std::string pattern(std::size_t bytes, unsigned salt = 0) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i != bytes; ++i)
        text[i] = static_cast<char>((i * 131 + i / 251 + salt * 17) & 0xff);
    return text;
}

/// Returns the object representation of the numbers.
template <class T>
std::string bytes_of(std::vector<T> const& numbers) {
    std::string text(numbers.size() * sizeof(T), '\0');
    if (!text.empty()) std::memcpy(text.data(), numbers.data(), text.size());
    return text;
}

inline std::vector<std::uint64_t> first_samples(std::uint64_t n) {
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i != n; ++i) samples.push_back(i);
    return samples;
}

/// Returns the result of a gather: for each field, the bytes of the samples, concatenated.
template <cuota::dataset S>
std::vector<std::string> gathered(S const& from, std::vector<std::uint64_t> const& samples) {
    std::vector<std::string> fields;
    for (cuota::field const& f : std::span<cuota::field const>{from.fields()})
        fields.emplace_back(f.bytes() * samples.size(), '\0');
    std::vector<std::span<std::byte>> out;
    for (std::string& field : fields) out.push_back(std::as_writable_bytes(std::span{field}));
    from.gather(samples, out);
    return fields;
}

inline bool mentions(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace support
