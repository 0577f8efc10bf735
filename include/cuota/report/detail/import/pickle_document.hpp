// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads Python's pickle format as data; nothing is executed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
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

enum class pickle_kind : unsigned char { none, boolean, integer, real, text, bytes, list, tuple, dict, mark };

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
/// Memory: at most about 60 bytes for each byte of the file; of a snapshot by PyTorch about three times the file.
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
        case pickle_kind::dict: return "a dict";
        case pickle_kind::mark: break;
    }
    return "a mark";
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

/// Runs the opcodes of a pickle: a machine with a stack and a memo.
class pickle_parser {
public:
    explicit pickle_parser(pickle_document& into) : into_{into}, bytes_{into.bytes_} {}

    void run() {
        if (byte_at(0) != 0x80)
            fail(0, "is not a pickle of protocol 2 to 5: it does not begin with 0x80", {});
        while (step()) {}
    }

private:
    using kind = pickle_kind;

    [[noreturn]] void fail(std::size_t at, char const* pattern, std::initializer_list<message_value> values) {
        throw_data_error(into_.name_, at, pattern, values);
    }
    [[nodiscard]] unsigned byte_at(std::size_t at) {
        if (at >= bytes_.size()) fail(bytes_.size(), "ends before the pickle does", {});
        return std::to_integer<unsigned>(bytes_[at]);
    }
    // Reads the next `count` bytes as a little-endian number.
    [[nodiscard]] std::uint64_t number(unsigned count) {
        std::uint64_t value = 0;
        for (unsigned i = 0; i != count; ++i) value |= std::uint64_t{byte_at(at_ + i)} << (8 * i);
        at_ += count;
        return value;
    }
    [[nodiscard]] std::uint64_t skip(std::uint64_t count) {
        if (count > bytes_.size() - at_)
            fail(opcode_at_, "an item of {} bytes at byte {} does not fit in the file: {} bytes are left",
                 {as_count(count), as_count(at_), as_count(bytes_.size() - at_)});
        std::size_t const begin = at_;
        at_ += count;
        return begin;
    }

    // --- the stack ---

    [[nodiscard]] std::uint32_t made(kind what, std::uint64_t first = 0, std::uint64_t second = 0,
                                     bool is_negative = false) {
        if (into_.nodes_.size() >= pickle_document::nothing) fail(opcode_at_, "has too many values", {});
        into_.nodes_.push_back({what, is_negative, opcode_at_, first, second});
        return static_cast<std::uint32_t>(into_.nodes_.size() - 1);
    }
    void push(kind what, std::uint64_t first = 0, std::uint64_t second = 0, bool is_negative = false) {
        stack_.push_back(made(what, first, second, is_negative));
    }
    void push_container(kind what) { push(what, pickle_document::nothing, pickle_document::nothing); }
    void push_signed(std::uint64_t bits, unsigned width) {
        bool const is_negative = (bits >> (width - 1) & 1) != 0;
        if (is_negative && width < 64) bits |= ~std::uint64_t{0} << width;
        push(kind::integer, bits, 0, is_negative);
    }
    void push_text(kind what, unsigned width) {
        std::uint64_t const count = number(width);
        push(what, skip(count), count);
    }
    void push_long(std::uint64_t count) {
        std::size_t const begin = skip(count);
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i != std::min<std::uint64_t>(count, 8); ++i)
            bits |= std::uint64_t{byte_at(begin + i)} << (8 * i);
        // Nine bytes of which the last is 0: an integer from 2^63 to 2^64 - 1.
        if (count == 9 && byte_at(begin + 8) == 0) return push(kind::integer, bits);
        if (count > 8) fail(opcode_at_, "an integer has more than 64 bits", {});
        if (count == 0) return push(kind::integer);
        push_signed(bits, static_cast<unsigned>(8 * count));
    }

    // Checks that `count` values are above the last mark.
    void need(std::size_t count) {
        for (std::size_t i = 0; i != count; ++i)
            if (stack_.size() <= i || stack_[stack_.size() - 1 - i] == pickle_document::nothing)
                fail(opcode_at_, "opcode {} needs {} values; {} are there",
                     {as_count(opcode_), as_count(count), as_count(i)});
    }
    [[nodiscard]] std::uint32_t top() {
        need(1);
        return stack_.back();
    }
    [[nodiscard]] std::uint32_t pop() {
        std::uint32_t const value = top();
        stack_.pop_back();
        return value;
    }
    // Returns the position after the last mark, which it removes with what is above.
    [[nodiscard]] std::size_t after_mark() {
        auto const mark = std::find(stack_.rbegin(), stack_.rend(), pickle_document::nothing);
        if (mark == stack_.rend())
            fail(opcode_at_, "opcode {} needs a mark, which is not there", {as_count(opcode_)});
        return static_cast<std::size_t>(mark.base() - stack_.begin());
    }
    void add(std::uint32_t container, std::size_t from, std::size_t count) {
        if (count == 0) return;
        auto& node = into_.nodes_[container];
        if (node.kind == kind::dict && count % 2 != 0) fail(opcode_at_, "a key of a dict has no value", {});
        auto const fresh = static_cast<std::uint32_t>(into_.runs_.size());
        into_.runs_.push_back({into_.elements_.size(), count, pickle_document::nothing});
        auto const first = stack_.begin() + static_cast<std::ptrdiff_t>(from);
        into_.elements_.insert(into_.elements_.end(), first, first + static_cast<std::ptrdiff_t>(count));
        if (node.first == pickle_document::nothing) node.first = fresh;
        else into_.runs_[node.second].next = fresh;
        node.second = fresh;
    }
    // Adds what is above the mark to the container below it.
    void add_to(kind what) {
        std::size_t const from = after_mark();
        std::size_t const count = stack_.size() - from;
        add(container_at(from - 1, what), from, count);
        stack_.resize(from - 1);
    }
    [[nodiscard]] std::uint32_t container_at(std::size_t end, kind what) {
        if (end == 0 || stack_[end - 1] == pickle_document::nothing ||
            into_.nodes_[stack_[end - 1]].kind != what)
            fail(opcode_at_, "opcode {} needs {}, which is not there", {as_count(opcode_), name_of(what)});
        return stack_[end - 1];
    }
    // Adds the last `count` values to the container below them.
    void add_last(kind what, std::size_t count) {
        need(count);
        std::size_t const from = stack_.size() - count;
        add(container_at(from, what), from, count);
        stack_.resize(from);
    }
    void make_of(kind what, std::size_t from, std::size_t end) {
        std::uint32_t const made_now = made(what, pickle_document::nothing, pickle_document::nothing);
        add(made_now, from, stack_.size() - from);
        stack_.resize(end);
        stack_.push_back(made_now);
    }
    void make_tuple(std::size_t count) {
        need(count);
        make_of(kind::tuple, stack_.size() - count, stack_.size() - count);
    }
    void make_above_mark(kind what) {
        std::size_t const from = after_mark();
        make_of(what, from, from - 1);
    }

    // --- the memo ---

    void store(std::uint64_t index) {
        // A writer numbers what it stores, so that no index exceeds the number of opcodes.
        if (index >= bytes_.size())
            fail(opcode_at_, "stores memo {}, more than the file has bytes", {as_count(index)});
        if (index >= memo_.size()) memo_.resize(index + 1, pickle_document::nothing);
        std::uint32_t& entry = memo_[index];
        if (entry == pickle_document::nothing) ++stored_;
        entry = top();
    }
    void load(std::uint64_t index) {
        if (index >= memo_.size() || memo_[index] == pickle_document::nothing)
            fail(opcode_at_, "reads memo {}, which was not stored", {as_count(index)});
        stack_.push_back(memo_[index]);
    }

    // Text up to a line's end, for messages.
    [[nodiscard]] std::string line() {
        std::string found;
        while (at_ < bytes_.size() && found.size() != 60) {
            char const c = static_cast<char>(byte_at(at_++));
            if (c == '\n') break;
            found.push_back(c);
        }
        return found;
    }
    [[noreturn]] void refuse_code(char const* what) { fail(opcode_at_, "asks for {}, not for data", {what}); }

    // Returns false at the end.
    bool step() {
        opcode_at_ = at_;
        opcode_ = byte_at(at_++);
        switch (opcode_) {
            case 0x80: {
                std::uint64_t const protocol = number(1);
                if (protocol < 2 || protocol > 5)
                    fail(opcode_at_, "is a pickle of protocol {}; 2 to 5 are read", {as_count(protocol)});
                return true;
            }
            case 0x95: {  // FRAME
                std::uint64_t const count = number(8);
                if (count > bytes_.size() - at_)
                    fail(opcode_at_, "a frame of {} bytes does not fit in the file", {as_count(count)});
                return true;
            }
            case '.': return end();
            case 'N': return push(kind::none), true;
            case 0x88: return push(kind::boolean, 1), true;
            case 0x89: return push(kind::boolean, 0), true;
            case 'K': return push(kind::integer, number(1)), true;
            case 'M': return push(kind::integer, number(2)), true;
            case 'J': return push_signed(number(4), 32), true;
            case 0x8a: return push_long(number(1)), true;
            case 0x8b: return push_long(number(4)), true;
            case 'G': return push(kind::real, number(8)), true;
            case 'X': return push_text(kind::text, 4), true;
            case 0x8c: return push_text(kind::text, 1), true;
            case 0x8d: return push_text(kind::text, 8), true;
            case 'T': return push_text(kind::text, 4), true;  // str of Python 2
            case 'U': return push_text(kind::text, 1), true;
            case 'B': return push_text(kind::bytes, 4), true;
            case 'C': return push_text(kind::bytes, 1), true;
            case 0x8e:
            case 0x96: return push_text(kind::bytes, 8), true;
            case ']':
            case 0x8f: return push_container(kind::list), true;
            case '}': return push_container(kind::dict), true;
            case ')': return push_container(kind::tuple), true;
            case '(': return stack_.push_back(pickle_document::nothing), true;
            case 'a': return add_last(kind::list, 1), true;
            case 'e':
            case 0x90: return add_to(kind::list), true;
            case 's': return add_last(kind::dict, 2), true;
            case 'u': return add_to(kind::dict), true;
            case 0x85: return make_tuple(1), true;
            case 0x86: return make_tuple(2), true;
            case 0x87: return make_tuple(3), true;
            case 't': return make_above_mark(kind::tuple), true;
            case 'l':
            case 0x91: return make_above_mark(kind::list), true;
            case 'd': return make_above_mark(kind::dict), true;
            case '0': return (void)pop(), true;
            case '1': return stack_.resize(after_mark() - 1), true;
            case '2': return stack_.push_back(top()), true;
            case 'q': return store(number(1)), true;
            case 'r': return store(number(4)), true;
            case 0x94: return store(stored_), true;
            case 'h': return load(number(1)), true;
            case 'j': return load(number(4)), true;
            case 'c': {
                std::string const module = line();
                refuse_code(message("the class or function {}.{}", {as_name(module, 60), as_name(line(), 60)})
                                .c_str());
            }
            case 0x93: refuse_code("a class or function");
            case 'R':
            case 'b':
            case 'i':
            case 'o':
            case 0x81:
            case 0x92: refuse_code("a call");
            case 'P':
            case 'Q': refuse_code("an object outside of the file");
            case 0x82:
            case 0x83:
            case 0x84: refuse_code("an object of the extension registry");
            default:
                fail(opcode_at_, "has the opcode {}, which protocols 2 to 5 do not write for data",
                     {as_count(opcode_)});
        }
    }
    bool end() {
        into_.root_ = pop();
        if (!stack_.empty()) fail(opcode_at_, "ends with {} further values", {as_count(stack_.size())});
        return false;
    }

    pickle_document& into_;
    std::span<std::byte const> bytes_;
    std::size_t at_ = 0;
    std::size_t opcode_at_ = 0;
    unsigned opcode_ = 0;
    std::vector<std::uint32_t> stack_;  // `nothing`: a mark
    std::vector<std::uint32_t> memo_;   // `nothing`: not stored
    std::uint64_t stored_ = 0;          // entries: the index that 0x94 stores next
};

CUOTA_INLINE pickle_document::pickle_document(std::span<std::byte const> bytes, std::string_view name)
    : bytes_{bytes}, name_{name} {
    pickle_parser{*this}.run();
}

}  // namespace cuota::inline v0::detail

#endif
