// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Steps, frames, allocations and refusals as ranges, marks and counters of NVTX: what Nsight Systems shows beside kernels.
/// Opt in: all.hpp does not include this. Needs the toolkit's header-only NVTX 3, and links nothing.
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
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0 {

namespace detail {

/// The domain "cuota", which all that is here belongs to. Null where no tool listens: then there is nothing to do.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    static nvtxDomainHandle_t const domain = nvtxDomainCreateA("cuota");  // never destroyed: ranges end late
    return domain;
}

/// The tool's handle of a tag's text, which it is told once. Null, which says nothing, when there is no host memory.
CUOTA_PROCESS_STATE [[nodiscard]] inline nvtxStringHandle_t nvtx_string(tag name) noexcept {
    static auto& guard = *new detail::process_lock;
    static auto& known =
        *new std::map<std::string_view, nvtxStringHandle_t>;  // tags live as long as the program
    try {
        std::lock_guard const lock{guard};
        auto const [found, is_new] = known.try_emplace(name.text());
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

/// True when a tool listens, as a program has it that runs under `nsys profile`. The first question may load the tool.
/// Throws: nothing. Threads: any. Cost: a load and a branch, once it has been asked.
[[nodiscard]] inline bool is_nvtx_traced() noexcept { return detail::nvtx_domain() != nullptr; }

/// A range of the calling thread, from here to the end of the scope; ranges of a thread nest. For frames, calls, and steps
/// of one thread.
///
///     nvtx_range const step{"step"};
///     nvtx_range const frame{tag{"decode"}, bytes};   // the text of a tag is told once, the bytes are its payload
///
/// Threads: the one that made it, for all of its life. Throws: nothing. Cost: without a tool, a load and a branch.
class nvtx_range {
public:
    /// Begins now; the tool copies the name.
    explicit nvtx_range(char const* name, std::size_t bytes = 0) noexcept {
        if (is_nvtx_traced()) push(detail::nvtx_attributes(name, bytes));
    }
    /// Begins now; the tool is told the text once.
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

/// A range that may end on another thread and in any order: the life of an allocation, a step that others finish.
/// Example: nvtx_life life{tag{"batch"}, bytes};  // until it ends or is moved away
/// Move-only. Threads: as any value. Throws: nothing. Cost: without a tool, a load and a branch.
class nvtx_life {
public:
    nvtx_life() noexcept = default;  ///< of nothing
    /// Begins now; bytes are its payload.
    explicit nvtx_life(tag name, std::size_t bytes = 0) noexcept {
        if (!is_nvtx_traced()) return;
        nvtxEventAttributes_t const a = detail::nvtx_attributes(name, bytes);
        id_ = nvtxDomainRangeStartEx(detail::nvtx_domain(), &a);
        is_live_ = true;
    }
    /// The other one ends nothing.
    nvtx_life(nvtx_life&& other) noexcept : id_{other.id_}, is_live_{std::exchange(other.is_live_, false)} {}
    /// Ends its own range first.
    nvtx_life& operator=(nvtx_life&& other) noexcept {
        if (this == &other) return *this;
        end();
        id_ = other.id_;
        is_live_ = std::exchange(other.is_live_, false);
        return *this;
    }
    ~nvtx_life() { end(); }

    /// Ends it now; once more is nothing.
    void end() noexcept {
        if (std::exchange(is_live_, false)) nvtxDomainRangeEnd(detail::nvtx_domain(), id_);
    }

private:
    nvtxRangeId_t id_ = 0;
    bool is_live_ = false;
};

/// A moment, with bytes as its payload. Threads: any. Throws: nothing.
/// Cost: without a tool, a load and a branch. Example: nvtx_mark(tag{"epoch"});
inline void nvtx_mark(tag name, std::size_t bytes = 0) noexcept {
    if (!is_nvtx_traced()) return;
    nvtxEventAttributes_t const a = detail::nvtx_attributes(name, bytes);
    nvtxDomainMarkEx(detail::nvtx_domain(), &a);
}

/// A refusal as a red moment: "refused rows of loader", with the bytes that were asked for as its payload.
/// Threads: any. Throws: nothing; without host memory the text is "refused".
/// Cost: without a tool, a load and a branch; with one, a text on the heap.
inline void nvtx_mark(refusal const& r) noexcept {
    if (!is_nvtx_traced()) return;
    std::string text;
    try {
        text = r.request.name.is_empty() ? "refused" : std::string{"refused "} + r.request.name.text();
        if (budget_facts const* const by = r.refuser()) text += " of " + by->name;
    } catch (std::exception const&) { text.clear(); }
    nvtxEventAttributes_t a = detail::nvtx_attributes(text.empty() ? "refused" : text.c_str(), r.asked);
    a.colorType = NVTX_COLOR_ARGB;
    a.color = 0xFFD62728;
    nvtxDomainMarkEx(detail::nvtx_domain(), &a);
}

/// As an observer of budgets and pools.
/// Throws: nothing. Example: catch (out_of_memory const& e) { nvtx_mark(e); }
inline void nvtx_mark(out_of_memory const& e) noexcept { nvtx_mark(e.facts()); }

/// A level of bytes over time: what a budget or a pool holds, sampled by whoever changes or looks at it.
///
/// Tools draw it as a curve. Where the toolkit's NVTX has no counters (before 3.2), `is_supported` is false and a sample is
/// nothing. The name is copied by the tool.
/// Threads: any. Throws: nothing. Cost: without a tool, a load and a branch.
/// Example: static nvtx_counter const held{"held"}; held.sample(budget.held());
class nvtx_counter {
public:
#ifdef NVTX_COUNTER_API_FUNCTIONS_V1
    static constexpr bool is_supported = true;  ///< false: this NVTX has no counters, and nothing is done

    /// Known to the tool from now on.
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
    /// Bytes from now on; what a signed number does not hold is the most that it does.
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
    static constexpr bool is_supported = false;     ///< true: this NVTX has counters
    explicit nvtx_counter(char const*) noexcept {}  ///< known to the tool, where there are counters
    void sample(std::size_t) const noexcept {}      ///< bytes from now on, where there are counters
#endif
};

}  // namespace cuota::inline v0
