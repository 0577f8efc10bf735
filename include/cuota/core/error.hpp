// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The exceptions of the library. Their constructors throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0 {

/// A CUDA call failed. Copies share the text.
/// Threads: any. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE cuda_error : public std::runtime_error {
public:
    /// `why` is the name of the code and further details.
    cuda_error(int code, std::string const& call, std::string const& why, source_location where);

    [[nodiscard]] int code() const noexcept { return code_; }  ///< a cudaError_t
    /// Returns for example "cudaMemcpyAsync".
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }
    [[nodiscard]] source_location where() const noexcept { return where_; }  ///< line 0 if unknown

private:
    int code_;
    detail::light_shared_ptr<std::string const> call_;
    source_location where_;
};

/// The MPS server has terminated the process's use of the device (cudaErrorMpsClientTerminated): because it held more than its soft limit
/// (memory_limits) while another process needed the memory, or on an administrator's order. All later calls for the device fail.
/// Threads: any. Example: tests/runtime/rt/call.sim.cpp
class CUOTA_PROCESS_TYPE mps_terminated_error : public cuda_error {
public:
    /// Makes it of the failed call.
    explicit mps_terminated_error(cuda_error const& failed) : cuda_error{failed} {}
};

namespace detail {
class refusal_state;
struct refusal_access;
}  // namespace detail

/// A memory request was refused by a budget (as budget_exceeded), by a pool's cap, or by the device. Nothing was allocated. Copies share
/// the facts and the text; suggestions(info()) computes suggestions.
/// Threads: any, on one object or on copies. Example: examples/train.cpp
class CUOTA_PROCESS_TYPE out_of_memory : public std::bad_alloc {
public:
    /// Stores the facts.
    explicit out_of_memory(refusal facts);

    /// Returns the facts, valid while any copy of the error exists.
    [[nodiscard]] refusal const& info() const noexcept;
    /// Returns refusal_text of the facts. Cost: the first call formats it (microseconds).
    [[nodiscard]] CUOTA_INLINE_IN_PLACE char const* what() const noexcept override;

protected:
    /// For a derived type: its name, and the text for exhausted host memory, both string literals.
    out_of_memory(char const* type, char const* fallback_text, refusal facts);

    /// Shares a stored refusal; for the library.
    out_of_memory(detail::refusal_access const&,
                  detail::light_shared_ptr<detail::refusal_state const> state) noexcept
        : state_{std::move(state)} {}

private:
    friend struct detail::refusal_access;
    detail::light_shared_ptr<detail::refusal_state const> state_;
};

/// A budget on the path from the charged one to its root cannot hold the request. If all caches together could cover the shortfall, they
/// were asked to release memory first.
/// Example: examples/first.cpp
class CUOTA_PROCESS_TYPE budget_exceeded : public out_of_memory {
public:
    /// Stores the facts.
    explicit budget_exceeded(refusal facts);

private:
    friend struct detail::refusal_access;
    budget_exceeded(detail::refusal_access const& by,
                    detail::light_shared_ptr<detail::refusal_state const> state) noexcept
        : out_of_memory{by, std::move(state)} {}
};

/// The program violated a rule of lifetime, streams, bounds or use. The message names the object and the call site. Fix the program instead
/// of catching it. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE usage_error : public std::logic_error {
public:
    /// The message is `what` and the call site.
    explicit usage_error(std::string const& what, source_location where = {});

    [[nodiscard]] source_location where() const noexcept { return where_; }  ///< line 0 if unknown

private:
    source_location where_;
};

/// The contents of a file are not valid. Copies share the texts.
/// Threads: any. Example: tests/core/error.cpp
class CUOTA_PROCESS_TYPE data_error : public std::runtime_error {
public:
    /// `offset` is in bytes from the beginning of the file.
    data_error(std::string file, std::uint64_t offset, std::string why);

    [[nodiscard]] std::string const& file() const noexcept { return facts_->file; }  ///< its path or name
    /// Returns the bytes from the beginning of the file.
    [[nodiscard]] std::uint64_t offset() const noexcept { return facts_->offset; }
    /// Returns the reason alone.
    [[nodiscard]] std::string const& why() const noexcept { return facts_->why; }

private:
    struct facts {
        std::string file;
        std::string why;
        std::uint64_t offset;
    };
    detail::light_shared_ptr<facts const> facts_;
};

namespace detail {

/// The state that copies of a refusal share. A class that stores it instead of the exception does not compile the formatting code: the
/// virtual function that formats is emitted wherever an exception is destroyed.
struct refusal_access {
    using state = light_shared_ptr<refusal_state const>;
    [[nodiscard]] static state of(budget_exceeded const& refused) noexcept { return refused.state_; }
    [[nodiscard]] static budget_exceeded exception(state refused) noexcept {
        return budget_exceeded{refusal_access{}, std::move(refused)};
    }
};

/// Throws usage_error with message(pattern, values).
[[noreturn, gnu::cold]] void throw_usage_error(source_location where, char const* pattern,
                                               std::initializer_list<message_value> values = {});
[[noreturn, gnu::cold]] void throw_usage_error(char const* pattern,
                                               std::initializer_list<message_value> values = {});

/// Throws data_error likewise.
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

CUOTA_INLINE cuda_error::cuda_error(int code, std::string const& call, std::string const& why,
                                    source_location where)
    : std::runtime_error{"cuota::cuda_error: " + call + " failed with " + why +
                         detail::location_suffix(where)},
      code_{code},
      call_{detail::light_shared_ptr<std::string const>::make(call)},
      where_{where} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

/// The facts of a refusal, and their text.
class refusal_state {
public:
    refusal_state(char const* type, char const* fallback_text, refusal facts) noexcept
        : type_{type}, fallback_text_{fallback_text}, facts_{std::move(facts)} {}
    refusal_state(refusal_state const&) = delete;
    refusal_state& operator=(refusal_state const&) = delete;
    ~refusal_state() { delete text_.load(std::memory_order_acquire); }

    [[nodiscard]] refusal const& info() const noexcept { return facts_; }

    /// Returns the text, formatted by the first call. Threads: any; concurrent first calls return the same text.
    [[nodiscard]] char const* text() const noexcept;

private:
    char const* type_;
    char const* fallback_text_;
    refusal facts_;
    mutable std::atomic<std::string const*> text_ = nullptr;
};

CUOTA_INLINE char const* refusal_state::text() const noexcept {
    if (auto const* made = text_.load(std::memory_order_acquire)) return made->c_str();
    try {
        auto mine = light_unique_ptr<std::string const>::make(refusal_text(type_, facts_));
        std::string const* kept = nullptr;
        bool const is_mine = text_.compare_exchange_strong(kept, mine.get(), std::memory_order_acq_rel,
                                                           std::memory_order_acquire);
        return (is_mine ? mine.detach() : kept)->c_str();
    } catch (...) {
        return fallback_text_;
    }  // the text does not fit in host memory: the next call tries again
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE out_of_memory::out_of_memory(refusal facts)
    : out_of_memory{"out_of_memory",
                    "cuota::out_of_memory: out of memory; the details do not fit in host memory",
                    std::move(facts)} {}

CUOTA_INLINE out_of_memory::out_of_memory(char const* type, char const* fallback_text, refusal facts)
    : state_{detail::light_shared_ptr<detail::refusal_state const>::make(type, fallback_text,
                                                                         std::move(facts))} {}

CUOTA_INLINE refusal const& out_of_memory::info() const noexcept { return state_->info(); }

CUOTA_INLINE_IN_PLACE char const* out_of_memory::what() const noexcept { return state_->text(); }

CUOTA_INLINE budget_exceeded::budget_exceeded(refusal facts)
    : out_of_memory{"budget_exceeded",
                    "cuota::budget_exceeded: out of memory; the details do not fit in host memory",
                    std::move(facts)} {}

CUOTA_INLINE usage_error::usage_error(std::string const& what, source_location where)
    : std::logic_error{"cuota::usage_error: " + what + detail::location_suffix(where)}, where_{where} {}

CUOTA_INLINE data_error::data_error(std::string file, std::uint64_t offset, std::string why)
    : std::runtime_error{"cuota::data_error: " + file + ": at byte " + std::to_string(offset) + ": " + why},
      facts_{detail::light_shared_ptr<facts const>::make(facts{std::move(file), std::move(why), offset})} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void throw_usage_error(source_location where, char const* pattern,
                                    std::initializer_list<message_value> values) {
    throw usage_error{message(pattern, values), where};
}

CUOTA_INLINE void throw_usage_error(char const* pattern, std::initializer_list<message_value> values) {
    throw_usage_error(source_location{}, pattern, values);
}

CUOTA_INLINE void throw_data_error(std::string_view file, std::uint64_t offset, char const* pattern,
                                   std::initializer_list<message_value> values) {
    throw data_error{std::string{file}, offset, message(pattern, values)};
}

}  // namespace cuota::inline v0::detail

#endif
