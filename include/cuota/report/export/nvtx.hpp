// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines NVTX ranges, marks and counters. Not included by report.hpp; needs NVTX 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtCounters.h>) && __has_include(<nvtx3/nvToolsExtSemanticsCounters.h>)
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Returns the domain "cuota"; null if no tool is attached.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    // Never destroyed, because ranges may end during exit.
    static nvtxDomainHandle_t const domain = nvtxDomainCreateA("cuota");
    return domain;
}

/// Returns the tool's handle of a tag's text; null if host memory is exhausted.
CUOTA_PROCESS_STATE [[nodiscard]] inline nvtxStringHandle_t nvtx_string(tag name) noexcept {
    static never_destroyed<process_lock> guard;
    static never_destroyed<std::map<std::string_view, nvtxStringHandle_t>>
        known;  // tags live as long as the program
    try {
        std::lock_guard const lock{guard.value};
        auto const [found, is_new] = known.value.try_emplace(name.text());
        if (is_new) found->second = nvtxDomainRegisterStringA(nvtx_domain(), name.text());
        return found->second;
    } catch (...) { return nullptr; }
}

[[nodiscard]] inline nvtxEventAttributes_t nvtx_attributes(std::size_t bytes) noexcept {
    nvtxEventAttributes_t a{};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    a.payload.ullValue = bytes;
    return a;
}
[[nodiscard]] inline nvtxEventAttributes_t nvtx_attributes(char const* text, std::size_t bytes) noexcept {
    nvtxEventAttributes_t a = nvtx_attributes(bytes);
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;  // the tool copies it
    a.message.ascii = text;
    return a;
}
[[nodiscard]] inline nvtxEventAttributes_t nvtx_attributes(tag name, std::size_t bytes) noexcept {
    nvtxEventAttributes_t a = nvtx_attributes(bytes);
    if (nvtxStringHandle_t const text = nvtx_string(name)) {
        a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        a.message.registered = text;
    }
    return a;
}

}  // namespace detail

/// Returns whether a tool is attached. The first call may load it.
/// Threads: any. Cost: a load and a branch after the first call.
[[nodiscard]] inline bool is_nvtx_traced() noexcept { return detail::nvtx_domain() != nullptr; }

/// A range of the calling thread, from construction to destruction. Ranges of a thread nest.
///
///     nvtx_range const step{"step"};
///     nvtx_range const frame{tag{"decode"}, bytes};   // bytes are the payload
///
/// Threads: constructed and destroyed by one thread. Cost: a load and a branch without a tool.
class nvtx_range {
public:
    /// Begins the range; the tool copies the name.
    explicit nvtx_range(char const* name, std::size_t bytes = 0) noexcept {
        if (is_nvtx_traced()) push(detail::nvtx_attributes(name, bytes));
    }
    /// Begins the range; the tag's text is registered once.
    explicit nvtx_range(tag name, std::size_t bytes = 0) noexcept {
        if (is_nvtx_traced()) push(detail::nvtx_attributes(name, bytes));
    }
    nvtx_range(nvtx_range const&) = delete;  // ranges of a thread end in the order of its scopes
    nvtx_range& operator=(nvtx_range const&) = delete;
    ~nvtx_range() {
        if (is_nvtx_traced()) (void)nvtxDomainRangePop(detail::nvtx_domain());
    }

private:
    static void push(nvtxEventAttributes_t const& a) noexcept {
        (void)nvtxDomainRangePushEx(detail::nvtx_domain(), &a);
    }
};

/// A range that may end on any thread and in any order.
/// Example: nvtx_unique_range life{tag{"batch"}, bytes};
/// Cost: as nvtx_range.
class nvtx_unique_range {
public:
    nvtx_unique_range() noexcept = default;  ///< no range
    /// Begins the range, with `bytes` as payload.
    explicit nvtx_unique_range(tag name, std::size_t bytes = 0) noexcept {
        if (!is_nvtx_traced()) return;
        nvtxEventAttributes_t const a = detail::nvtx_attributes(name, bytes);
        id_ = nvtxDomainRangeStartEx(detail::nvtx_domain(), &a);
        is_live_ = true;
    }
    /// Takes the range; `other` has none afterwards.
    nvtx_unique_range(nvtx_unique_range&& other) noexcept
        : id_{other.id_}, is_live_{std::exchange(other.is_live_, false)} {}
    /// Ends its own range first.
    nvtx_unique_range& operator=(nvtx_unique_range&& other) noexcept {
        if (this == &other) return *this;
        end();
        id_ = other.id_;
        is_live_ = std::exchange(other.is_live_, false);
        return *this;
    }
    ~nvtx_unique_range() { end(); }

    /// Ends the range, if not ended yet.
    void end() noexcept {
        if (std::exchange(is_live_, false)) nvtxDomainRangeEnd(detail::nvtx_domain(), id_);
    }

private:
    nvtxRangeId_t id_ = 0;
    bool is_live_ = false;
};

/// Marks a moment, with `bytes` as payload. Threads: any. Cost: as nvtx_range. Example: nvtx_mark(tag{"epoch"});
inline void nvtx_mark(tag name, std::size_t bytes = 0) noexcept {
    if (!is_nvtx_traced()) return;
    nvtxEventAttributes_t const a = detail::nvtx_attributes(name, bytes);
    nvtxDomainMarkEx(detail::nvtx_domain(), &a);
}

/// Marks a refusal in red, as "refused rows of loader", with the requested bytes as payload.
/// Threads: any. Cost: as nvtx_range; with a tool, also a string on the heap.
inline void nvtx_mark(refusal const& r) noexcept {
    if (!is_nvtx_traced()) return;
    std::string text;
    try {
        text = r.request.name.is_empty() ? "refused" : std::string{"refused "} + r.request.name.text();
        if (budget_info const* const by = r.refusing_budget()) text += " of " + by->name;
    } catch (std::exception const&) { text.clear(); }
    nvtxEventAttributes_t a = detail::nvtx_attributes(text.empty() ? "refused" : text.c_str(), r.requested);
    a.colorType = NVTX_COLOR_ARGB;
    a.color = 0xFFD62728;
    nvtxDomainMarkEx(detail::nvtx_domain(), &a);
}

/// Marks a caught refusal. Example: catch (out_of_memory const& e) { nvtx_mark(e); }
inline void nvtx_mark(out_of_memory const& e) noexcept { nvtx_mark(e.info()); }

/// A counter of bytes, drawn as a curve by tools. The tool copies the name.
///
/// Before NVTX 3.2, `is_supported` is false and sampling does nothing. Threads: any. Cost: as nvtx_range.
/// Example: static nvtx_counter const held{"held"}; held.sample(budget.held());
class nvtx_counter {
public:
#ifdef NVTX_COUNTER_API_FUNCTIONS_V1
    static constexpr bool is_supported = true;  ///< whether this NVTX has counters

    /// Registers the counter.
    explicit nvtx_counter(char const* name) noexcept {
        if (!is_nvtx_traced()) return;
        nvtxSemanticsCounter_t bytes{};
        bytes.header.structSize = sizeof bytes;
        bytes.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
        bytes.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
        bytes.flags = NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
        bytes.unit = "bytes";
        bytes.unitScaleNumerator = bytes.unitScaleDenominator = 1;
        nvtxCounterAttr_t a{};
        a.structSize = sizeof a;
        a.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
        a.name = name;
        a.scopeId = NVTX_SCOPE_CURRENT_SW_PROCESS;
        a.semantics = &bytes.header;
        id_ = nvtxCounterRegister(detail::nvtx_domain(), &a);
    }
    /// Sets the value, limited to the largest signed 64-bit number.
    void sample(std::size_t bytes) const noexcept {
        constexpr auto most = std::numeric_limits<std::int64_t>::max();
        if (id_ == NVTX_COUNTER_ID_NONE) return;
        std::int64_t const value =
            bytes > static_cast<std::size_t>(most) ? most : static_cast<std::int64_t>(bytes);
        nvtxCounterSampleInt64(detail::nvtx_domain(), id_, value);
    }

private:
    std::uint64_t id_ = NVTX_COUNTER_ID_NONE;
#else
    static constexpr bool is_supported = false;     ///< whether this NVTX has counters
    explicit nvtx_counter(char const*) noexcept {}  ///< does nothing
    void sample(std::size_t) const noexcept {}      ///< does nothing
#endif
};

}  // namespace cuota::inline v0
