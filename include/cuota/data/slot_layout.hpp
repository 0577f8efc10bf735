// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where the fields of a batch lie in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/view_origin.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// A batch in memory: field after field, each of all its samples back to back, from an aligned offset on. Bytes.
struct slot_layout {
    std::size_t sample_bytes = 0;        ///< all fields of one sample
    std::size_t bytes = 0;               ///< of a full batch, each field aligned
    std::vector<std::size_t> offsets{};  ///< of each field

    /// Of `batch` samples. Throws: misuse when that is more than a std::size_t holds, for a source of that name.
    [[nodiscard]] static slot_layout of(std::span<field const> fields, std::size_t batch,
                                        std::string const& name) {
        slot_layout made;
        for (field const& f : fields) {
            made.offsets.push_back(made.bytes);
            made.sample_bytes = or_too_large(checked_add(made.sample_bytes, f.bytes()), name);
            std::size_t const all = or_too_large(checked_mul(f.bytes(), batch), name);
            std::size_t const padded = or_too_large(checked_round_up(all, default_alignment), name);
            made.bytes = or_too_large(checked_add(made.bytes, padded), name);
        }
        return made;
    }

    /// Bytes that hold something when there are n samples of these fields.
    [[nodiscard]] std::size_t used_bytes(std::span<field const> fields, std::size_t n) const {
        return fields.empty() || n == 0 ? 0 : offsets.back() + n * fields.back().bytes();
    }

    /// Throws: misuse for nothing: a size that was too large.
    [[nodiscard]] static std::size_t or_too_large(std::optional<std::size_t> bytes, std::string const& name) {
        if (!bytes) throw misuse{"a batch of " + name + " would be larger than any address space"};
        return *bytes;
    }

    friend bool operator==(slot_layout const&, slot_layout const&) = default;
};

namespace detail {

/// A batch on the device, or some of its fields.
struct slot_contents {
    std::byte* at;
    std::span<std::size_t const> offsets;  // of the fields, from there
    std::span<field const> fields;
    std::size_t samples;

    [[nodiscard]] slot_contents only(std::size_t first, std::size_t count) const noexcept {
        return {at, offsets.subspan(first, count), fields.subspan(first, count), samples};
    }

    /// Elements of a field of all samples. T is the field's element type, or std::byte for any.
    /// Throws: misuse for a field that there is not, or another type; `what` is said to be what was viewed.
    template <class T>
    [[nodiscard]] device_span<T> view(std::size_t index, char const* what, place where) const {
        if (index >= fields.size())
            throw misuse{"field " + std::to_string(index) + " of " + what + " that has " +
                             std::to_string(fields.size()),
                         where};
        field const& f = fields[index];
        if (!std::is_same_v<std::remove_const_t<T>, std::byte> && element_of<T>() != f.type)
            throw misuse{"field " + field_text(f) + " of " + what + " was viewed as " +
                             element_name(element_of<T>()),
                         where};
        return {reinterpret_cast<T*>(at + offsets[index]), samples * f.bytes() / sizeof(T),
                view_origin::of_lease("batch", where)};
    }
};

}  // namespace detail

}  // namespace cuota::inline v0
