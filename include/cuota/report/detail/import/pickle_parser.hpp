// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs the opcodes of a pickle that stand for data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>
#include <cuota/report/detail/import/pickle_document.hpp>

namespace cuota::inline v0::detail {

class pickle_parser;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

/// Runs the opcodes: a machine with a stack and a memo.
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

}  // namespace cuota::inline v0::detail

#endif
