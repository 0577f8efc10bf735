// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads Python's pickle format as data; nothing is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

enum class pickle_kind : unsigned char { none, boolean, integer, real, text, bytes, list, tuple, dict };

/// Returns "a list", "text" and the like.
[[nodiscard]] char const* name_of(pickle_kind kind) noexcept;

class pickle_document;

/// A value of a document, which must outlive it. The accessors throw data_error with the value's offset if it has another kind; `what` names
/// the value in the message.
class pickle_value {
public:
    [[nodiscard]] pickle_kind kind() const noexcept;
    /// Returns the offset of the opcode that made it.
    [[nodiscard]] std::uint64_t offset() const noexcept;
    /// Equal for two references to one object.
    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }

    /// Returns an integer that is not negative.
    [[nodiscard]] std::uint64_t size(char const* what) const;
    /// Returns the two's complement of an integer.
    [[nodiscard]] std::uint64_t bits(char const* what) const;
    /// Returns whether a boolean or an integer is not 0.
    [[nodiscard]] bool truth(char const* what) const;
    [[nodiscard]] std::string_view text(char const* what) const;

    /// Calls visit(pickle_value) for each element of a list or a tuple.
    template <class Visit>
    void each(char const* what, Visit visit) const;
    /// Returns a dict's value, the last one for a repeated key; nullopt without one. A dict of more than 1000 entries throws data_error, so
    /// that a file that names one dict many times is not searched for hours.
    [[nodiscard]] std::optional<pickle_value> find(std::string_view key) const;
    /// Same, but throws data_error without one.
    [[nodiscard]] pickle_value at(std::string_view key, char const* what) const;

    /// Throws data_error at its offset.
    [[noreturn]] void fail(char const* pattern, std::initializer_list<message_value> values) const;

private:
    friend class pickle_document;
    pickle_value(pickle_document const& of, std::uint32_t number) noexcept : of_{&of}, number_{number} {}
    void require(pickle_kind kind, char const* what) const;

    pickle_document const* of_;
    std::uint32_t number_;
};

/// A pickle of protocol 2 to 5 with none, booleans, integers of 64 bits, floats, text, bytes, lists, tuples, dicts and sets (read as lists).
/// Values that the file names several times are stored once. A list that contains itself is stored as such: reading stops at a kind that
/// is not expected.
///
/// A file that asks for a class or a call is refused. Bytes after the end are ignored.
/// Memory: 32 bytes for each value and 4 for each reference to one, which takes a byte of the file or more.
class pickle_document {
public:
    /// The bytes must outlive the document. `name` is for messages.
    /// Throws: data_error with the offset, std::bad_alloc.
    pickle_document(std::span<std::byte const> bytes, std::string_view name);

    [[nodiscard]] pickle_value root() const noexcept { return {*this, root_}; }
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.size(); }  ///< of the file

private:
    friend class pickle_value;
    friend class pickle_parser;
    static constexpr std::uint32_t nothing = ~std::uint32_t{0};

    struct node {
        pickle_kind kind;
        bool is_negative;
        std::uint64_t offset;
        // An integer or boolean; a text's first byte and size; a container's first and last run.
        std::uint64_t first;
        std::uint64_t second;
    };
    // Elements that were added together; of a dict, keys and values in turn.
    struct run {
        std::size_t begin;
        std::size_t count;
        std::uint32_t next;
    };

    std::span<std::byte const> bytes_;
    std::string name_;
    std::vector<node> nodes_;
    std::vector<run> runs_;
    std::vector<std::uint32_t> elements_;
    std::uint32_t root_ = 0;
};

template <class Visit>
void pickle_value::each(char const* what, Visit visit) const {
    if (kind() != pickle_kind::tuple) require(pickle_kind::list, what);
    for (auto at = static_cast<std::uint32_t>(of_->nodes_[number_].first); at != pickle_document::nothing;
         at = of_->runs_[at].next)
        for (std::size_t i = 0; i != of_->runs_[at].count; ++i)
            visit(pickle_value{*of_, of_->elements_[of_->runs_[at].begin + i]});
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

#include <cuota/report/detail/import/pickle_parser.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE char const* name_of(pickle_kind kind) noexcept {
    switch (kind) {
        case pickle_kind::none: return "None";
        case pickle_kind::boolean: return "a boolean";
        case pickle_kind::integer: return "an integer";
        case pickle_kind::real: return "a float";
        case pickle_kind::text: return "text";
        case pickle_kind::bytes: return "bytes";
        case pickle_kind::list: return "a list";
        case pickle_kind::tuple: return "a tuple";
        case pickle_kind::dict: break;
    }
    return "a dict";
}

CUOTA_INLINE pickle_kind pickle_value::kind() const noexcept { return of_->nodes_[number_].kind; }
CUOTA_INLINE std::uint64_t pickle_value::offset() const noexcept { return of_->nodes_[number_].offset; }

CUOTA_INLINE void pickle_value::fail(char const* pattern, std::initializer_list<message_value> values) const {
    throw_data_error(of_->name_, offset(), pattern, values);
}

CUOTA_INLINE void pickle_value::require(pickle_kind wanted, char const* what) const {
    if (kind() != wanted) fail("{} is {}; expected {}", {what, name_of(kind()), name_of(wanted)});
}

CUOTA_INLINE std::uint64_t pickle_value::size(char const* what) const {
    require(pickle_kind::integer, what);
    auto const& node = of_->nodes_[number_];
    if (node.is_negative) fail("{} is negative", {what});
    return node.first;
}

CUOTA_INLINE std::uint64_t pickle_value::bits(char const* what) const {
    require(pickle_kind::integer, what);
    return of_->nodes_[number_].first;
}

CUOTA_INLINE bool pickle_value::truth(char const* what) const {
    if (kind() != pickle_kind::integer) require(pickle_kind::boolean, what);
    return of_->nodes_[number_].first != 0;
}

CUOTA_INLINE std::string_view pickle_value::text(char const* what) const {
    require(pickle_kind::text, what);
    auto const& node = of_->nodes_[number_];
    return {reinterpret_cast<char const*>(of_->bytes_.data()) + node.first, node.second};
}

CUOTA_INLINE std::optional<pickle_value> pickle_value::find(std::string_view key) const {
    if (kind() != pickle_kind::dict) return std::nullopt;
    constexpr std::size_t most = 1000;
    std::size_t entries = 0;
    std::optional<pickle_value> found;
    for (auto at = static_cast<std::uint32_t>(of_->nodes_[number_].first); at != pickle_document::nothing;
         at = of_->runs_[at].next) {
        entries += of_->runs_[at].count / 2;
        if (entries > most)
            fail("a dict has more than {} entries, where a few are expected", {as_count(most)});
        for (std::size_t i = 0; i + 1 < of_->runs_[at].count; i += 2) {
            std::size_t const pair = of_->runs_[at].begin + i;
            pickle_value const name{*of_, of_->elements_[pair]};
            if (name.kind() == pickle_kind::text && name.text("a key") == key)
                found = pickle_value{*of_, of_->elements_[pair + 1]};
        }
    }
    return found;
}

CUOTA_INLINE pickle_value pickle_value::at(std::string_view key, char const* what) const {
    require(pickle_kind::dict, what);
    std::optional<pickle_value> const found = find(key);
    if (!found) fail("{} has no '{}'", {what, key});
    return *found;
}

CUOTA_INLINE pickle_document::pickle_document(std::span<std::byte const> bytes, std::string_view name)
    : bytes_{bytes}, name_{name} {
    pickle_parser{*this}.run();
}

}  // namespace cuota::inline v0::detail

#endif
