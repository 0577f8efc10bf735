// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Encodes values as JSON or pickle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

/// A buffered stream; throws data_error if it fails.
class memory_viz_output {
public:
    explicit memory_viz_output(std::ostream& to) : to_{to} {}

    void put(char c) { put(std::string_view{&c, 1}); }
    void put(std::string_view bytes);
    void flush();

private:
    static constexpr std::size_t room = 1 << 16;

    void write();
    [[noreturn]] void fail() const;

    std::ostream& to_;
    std::string buffer_;
    std::size_t written_ = 0;
};

/// Encodes JSON on one line. Each call writes the next value; `key` precedes it in an object.
class memory_viz_json {
public:
    explicit memory_viz_json(memory_viz_output& to) : to_{to} {}

    void begin_document() {}
    void end_document() { to_.put('\n'); }
    void begin_object() { begin('{'); }
    void end_object() { end('}'); }
    void begin_list() { begin('['); }
    void end_list() { end(']'); }
    void key(std::string_view name);
    void text(std::string_view value);
    void number(std::uint64_t value);
    void truth(bool value);

private:
    void separate();
    void begin(char c);
    void end(char c);

    memory_viz_output& to_;
    bool is_first_ = true;
};

/// Encodes Python's pickle, protocol 2, without classes, memo or executable content. Lists are appended in batches, because the viewer
/// passes a batch as the arguments of one call.
class memory_viz_pickle {
public:
    explicit memory_viz_pickle(memory_viz_output& to) : to_{to} {}

    void begin_document() { to_.put("\x80\x02"); }
    void end_document() { to_.put('.'); }
    void begin_object() { begin("}(", not_a_list); }
    void end_object() { end('u'); }
    void begin_list() { begin("](", 0); }
    void end_list() { end('e'); }
    void key(std::string_view name) { put_text(name); }
    void text(std::string_view value);
    void number(std::uint64_t value);
    void truth(bool value);

private:
    static constexpr std::size_t batch = 1000;
    static constexpr std::size_t not_a_list = ~std::size_t{0};

    void count();
    void begin(std::string_view opcodes, std::size_t what);
    void end(char opcode);
    void put_bytes(std::uint64_t value, std::size_t count);
    // Replaces invalid UTF-8 as in JSON.
    void put_text(std::string_view value);

    memory_viz_output& to_;
    std::vector<std::size_t> inside_;  // items of each open list
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE void memory_viz_output::put(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= room) write();
}

CUOTA_INLINE void memory_viz_output::flush() {
    write();
    if (!to_.flush()) fail();
}

CUOTA_INLINE void memory_viz_output::write() {
    if (!to_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()))) fail();
    written_ += buffer_.size();
    buffer_.clear();
}

CUOTA_INLINE void memory_viz_output::fail() const {
    throw_data_error("memory_viz snapshot", 0, "writing failed after {}", {as_bytes(written_)});
}

CUOTA_INLINE void memory_viz_json::key(std::string_view name) {
    separate();
    to_.put(json_string(name));
    to_.put(':');
    is_first_ = true;  // no comma before the value
}

CUOTA_INLINE void memory_viz_json::text(std::string_view value) {
    separate();
    to_.put(json_string(value));
}

CUOTA_INLINE void memory_viz_json::number(std::uint64_t value) {
    separate();
    to_.put(std::to_string(value));
}

CUOTA_INLINE void memory_viz_json::truth(bool value) {
    separate();
    to_.put(value ? "true" : "false");
}

CUOTA_INLINE void memory_viz_json::separate() {
    if (!is_first_) to_.put(',');
    is_first_ = false;
}

CUOTA_INLINE void memory_viz_json::begin(char c) {
    separate();
    to_.put(c);
    is_first_ = true;
}

CUOTA_INLINE void memory_viz_json::end(char c) {
    to_.put(c);
    is_first_ = false;
}

CUOTA_INLINE void memory_viz_pickle::text(std::string_view value) {
    count();
    put_text(value);
}

CUOTA_INLINE void memory_viz_pickle::number(std::uint64_t value) {
    count();
    if (value < std::uint64_t{1} << 31) {
        to_.put('J');
        put_bytes(value, 4);
        return;
    }
    std::size_t size = 4;  // signed, so the highest bit must be 0
    while (size != 8 && value >> (8 * size - 1)) ++size;
    bool const is_beyond = size == 8 && value >> 63;
    to_.put('\x8a');
    to_.put(static_cast<char>(is_beyond ? 9 : size));
    put_bytes(value, size);
    if (is_beyond) to_.put('\0');
}

CUOTA_INLINE void memory_viz_pickle::truth(bool value) {
    count();
    to_.put(value ? '\x88' : '\x89');
}

CUOTA_INLINE void memory_viz_pickle::count() {
    if (inside_.empty() || inside_.back() == not_a_list) return;
    if (inside_.back()++ % batch == 0 && inside_.back() != 1) to_.put("e(");
}

CUOTA_INLINE void memory_viz_pickle::begin(std::string_view opcodes, std::size_t what) {
    count();
    to_.put(opcodes);
    inside_.push_back(what);
}

CUOTA_INLINE void memory_viz_pickle::end(char opcode) {
    inside_.pop_back();
    to_.put(opcode);
}

CUOTA_INLINE void memory_viz_pickle::put_bytes(std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i != count; ++i)
        to_.put(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
}

CUOTA_INLINE void memory_viz_pickle::put_text(std::string_view value) {
    std::string valid;
    for (std::size_t at = 0; at != value.size();) {
        std::size_t const length = utf8_length(value, at);
        valid += length == 0 ? std::string_view{"\xEF\xBF\xBD"} : value.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    to_.put('X');
    put_bytes(valid.size(), 4);
    to_.put(valid);
}

}  // namespace cuota::inline v0::detail

#endif
