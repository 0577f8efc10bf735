// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The errors of the library: five types, each with the facts a program or a person can act on.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/message.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0 {

/// A CUDA call failed. Carries the code, the call and the place that made it.
/// Copies share the text. Threads: any. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE cuda_error : public std::runtime_error {
public:
    /// `code` is a cudaError_t, `why` its name and what else is known. Throws: std::bad_alloc.
    cuda_error(int code, std::string const& call, std::string const& why, place where);

    [[nodiscard]] int code() const noexcept { return code_; }                  ///< a cudaError_t
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }  ///< "cudaMemcpyAsync"
    [[nodiscard]] place where() const noexcept { return where_; }              ///< line 0 when nobody gave it

private:
    static std::string suffix(place where);
    int code_;
    shared_value<std::string const> call_;
    place where_;
};

namespace detail {
class refusal_state;
struct refusal_access;
}  // namespace detail

/// Memory was refused: by a budget (then it is a budget_exceeded), by a pool's cap, or by the device itself.
/// Whoever refused did so before it took anything: what was held before is held after, and nothing more.
/// Copies share the facts and the text. Threads: any, on one object or on copies.
/// What to do about it: next_steps(error.facts()). Example: examples/train.cpp
class CUOTA_PROCESS_TYPE out_of_memory : public std::bad_alloc {
public:
    /// Throws: std::bad_alloc.
    explicit out_of_memory(refusal facts);

    /// Bytes asked, held, limit, holders: as of the refusal. Lives as long as a copy of the error does.
    [[nodiscard]] refusal const& facts() const noexcept;
    /// refusal_text of the facts. Made by the first call, which costs microseconds: who only catches pays nothing.
    [[nodiscard]] CUOTA_INLINE_IN_PLACE char const* what() const noexcept override;

protected:
    /// For a type of its own: its name, and a text for when no host memory is left, both literals. Throws: std::bad_alloc.
    // What to say in need is for a host that has no memory left for the text.
    out_of_memory(char const* type, char const* in_need, refusal facts);

    /// Of a stored refusal; for the library.
    out_of_memory(detail::refusal_access const&, shared_value<detail::refusal_state const> state) noexcept
        : state_{std::move(state)} {}

private:
    friend struct detail::refusal_access;
    shared_value<detail::refusal_state const> state_;
};

/// A budget on the way from the asked one to its root could not hold the request.
/// A charge has asked caches before, as far as all of them together could give what is missing.
/// Example: examples/first.cpp
class CUOTA_PROCESS_TYPE budget_exceeded : public out_of_memory {
public:
    /// Throws: std::bad_alloc.
    explicit budget_exceeded(refusal facts);

private:
    friend struct detail::refusal_access;
    budget_exceeded(detail::refusal_access const& by,
                    shared_value<detail::refusal_state const> state) noexcept
        : out_of_memory{by, std::move(state)} {}
};

/// The program broke a rule of lifetime, stream, bounds or use; the message names the thing and the place.
/// A defect of the program, not of its surroundings: mend it, rather than catch it. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE misuse : public std::logic_error {
public:
    /// The message is `what` and, where there is one, the place. Throws: std::bad_alloc.
    explicit misuse(std::string const& what, place where = {});

    [[nodiscard]] place where() const noexcept { return where_; }  ///< line 0 when nobody gave it

private:
    static std::string at(place where);
    place where_;
};

/// A file does not hold what it should. Names the file, the byte offset where it goes wrong, and why.
/// Copies share the texts. Threads: any. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE data_error : public std::runtime_error {
public:
    /// `offset` in bytes from the file's begin. Throws: std::bad_alloc.
    data_error(std::string file, std::uint64_t offset, std::string why);

    [[nodiscard]] std::string const& file() const noexcept { return facts_->file; }  ///< its path or name
    [[nodiscard]] std::uint64_t offset() const noexcept { return facts_->offset; }   ///< bytes from the begin
    /// Without file and offset.
    [[nodiscard]] std::string const& why() const noexcept { return facts_->why; }

private:
    struct facts {
        std::string file;
        std::string why;
        std::uint64_t offset;
    };
    shared_value<facts const> facts_;
};

namespace detail {

/// What the copies of a refusal share. A class that keeps this in place of the exception does not have the text of refusals compiled into
/// every program: the virtual function that makes the text is compiled wherever an exception is destroyed.
struct refusal_access {
    using state = shared_value<refusal_state const>;
    [[nodiscard]] static state of(budget_exceeded const& refused) noexcept { return refused.state_; }
    [[nodiscard]] static budget_exceeded exception(state refused) noexcept {
        return budget_exceeded{refusal_access{}, std::move(refused)};
    }
};

/// Throws: a misuse with message(pattern, values). One call, where `throw misuse{...}` at each place would compile to an allocation, the
/// message and what destroys both.
[[noreturn, gnu::cold]] void throw_misuse(place where, char const* pattern,
                                          std::initializer_list<message_value> values = {});
/// Throws: a misuse without a place.
[[noreturn, gnu::cold]] void throw_misuse(char const* pattern,
                                          std::initializer_list<message_value> values = {});

/// Throws: a data_error of that file and offset, in bytes, with message(pattern, values).
[[noreturn, gnu::cold]] void throw_data_error(std::string_view file, std::uint64_t offset,
                                              char const* pattern,
                                              std::initializer_list<message_value> values = {});

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <atomic>
#include <utility>

#include <cuota/core/refusal_text.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE cuda_error::cuda_error(int code, std::string const& call, std::string const& why, place where)
    : std::runtime_error{"cuota::cuda_error: " + call + " failed with " + why + suffix(where)},
      code_{code},
      call_{shared_value<std::string const>::make(call)},
      where_{where} {}

CUOTA_INLINE std::string cuda_error::suffix(place where) {
    std::string const place = place_text(where);
    return place.empty() ? "" : " (" + place + ')';
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

/// The facts of a refusal, and the text that is made of them when somebody asks for it first.
class refusal_state {
public:
    refusal_state(char const* type, char const* in_need, refusal facts) noexcept
        : type_{type}, in_need_{in_need}, facts_{std::move(facts)} {}
    refusal_state(refusal_state const&) = delete;
    refusal_state& operator=(refusal_state const&) = delete;
    ~refusal_state() { delete text_.load(std::memory_order_acquire); }

    [[nodiscard]] refusal const& facts() const noexcept { return facts_; }

    /// Threads: any. Those that come first together each make the text; one of them is kept, and all are told that one.
    [[nodiscard]] char const* text() const noexcept;

private:
    char const* type_;
    char const* in_need_;
    refusal facts_;
    mutable std::atomic<std::string const*> text_ = nullptr;
};

CUOTA_INLINE char const* refusal_state::text() const noexcept {
    if (auto const* made = text_.load(std::memory_order_acquire)) return made->c_str();
    try {
        auto mine = sole<std::string const>::make(refusal_text(type_, facts_));
        std::string const* kept = nullptr;
        bool const is_mine = text_.compare_exchange_strong(kept, mine.get(), std::memory_order_acq_rel,
                                                           std::memory_order_acquire);
        return (is_mine ? mine.detach() : kept)->c_str();
    } catch (...) { return in_need_; }  // not even the text fits in host memory: the next call tries again
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE out_of_memory::out_of_memory(refusal facts)
    : out_of_memory{"out_of_memory",
                    "cuota::out_of_memory: out of memory, and out of host memory for the details",
                    std::move(facts)} {}

CUOTA_INLINE out_of_memory::out_of_memory(char const* type, char const* in_need, refusal facts)
    : state_{shared_value<detail::refusal_state const>::make(type, in_need, std::move(facts))} {}

CUOTA_INLINE refusal const& out_of_memory::facts() const noexcept { return state_->facts(); }

CUOTA_INLINE_IN_PLACE char const* out_of_memory::what() const noexcept { return state_->text(); }

CUOTA_INLINE budget_exceeded::budget_exceeded(refusal facts)
    : out_of_memory{"budget_exceeded",
                    "cuota::budget_exceeded: out of memory, and out of host memory for the details",
                    std::move(facts)} {}

CUOTA_INLINE misuse::misuse(std::string const& what, place where)
    : std::logic_error{"cuota::misuse: " + what + at(where)}, where_{where} {}

CUOTA_INLINE std::string misuse::at(place where) {
    std::string const place = place_text(where);
    return place.empty() ? "" : " (" + place + ')';
}

CUOTA_INLINE data_error::data_error(std::string file, std::uint64_t offset, std::string why)
    : std::runtime_error{"cuota::data_error: " + file + ": at byte " + std::to_string(offset) + ": " + why},
      facts_{shared_value<facts const>::make(facts{std::move(file), std::move(why), offset})} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void throw_misuse(place where, char const* pattern,
                               std::initializer_list<message_value> values) {
    throw misuse{message(pattern, values), where};
}

CUOTA_INLINE void throw_misuse(char const* pattern, std::initializer_list<message_value> values) {
    throw_misuse(place{}, pattern, values);
}

CUOTA_INLINE void throw_data_error(std::string_view file, std::uint64_t offset, char const* pattern,
                                   std::initializer_list<message_value> values) {
    throw data_error{std::string{file}, offset, message(pattern, values)};
}

}  // namespace cuota::inline v0::detail

#endif
