// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Base of resource adaptors.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

template <class R>
concept knows_device = requires(R const& r) {
    { r.device() } -> std::convertible_to<device>;
};

/// Order of a call: that of a stream, or synchronous.
class call_order {
public:
    call_order() noexcept = default;
    explicit call_order(stream_ref s) noexcept : stream_{s}, has_stream_{true} {}

    /// Returns null for a synchronous call.
    [[nodiscard]] stream_ref const* stream() const noexcept { return has_stream_ ? &stream_ : nullptr; }

    template <resource R>
    [[nodiscard]] void* take(R& from, std::size_t bytes, std::size_t alignment, label const& who) const {
        return has_stream_ ? allocate_labeled(from, stream_, bytes, alignment, who)
                           : allocate_sync_labeled(from, bytes, alignment, who);
    }
    template <resource R>
    void give(R& to, void* p, std::size_t bytes, std::size_t alignment) const noexcept {
        if (has_stream_) to.deallocate(stream_, p, bytes, alignment);
        else to.deallocate_sync(p, bytes, alignment);
    }

private:
    stream_ref stream_{cudaStreamLegacy};
    bool has_stream_ = false;
};

/// Resource adaptor over Upstream. Copies share one `State`, which has upstream() and makes the calls:
///
///     allocate(order, bytes, alignment, who)    through order.take(upstream, ...)
///     deallocate(order, p, bytes, alignment)    noexcept, through order.give(upstream, ...)
template <resource Upstream, class State>
class resource_adaptor_base {
public:
    // A move is a copy: a moved-from handle stays valid.
    resource_adaptor_base(resource_adaptor_base const&) noexcept = default;
    resource_adaptor_base& operator=(resource_adaptor_base const&) noexcept = default;

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        return state_->allocate(call_order{s}, bytes, alignment, who);
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        give(call_order{s}, p, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        return state_->allocate(call_order{}, bytes, alignment, who);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        give(call_order{}, p, bytes, alignment);
    }

    [[nodiscard]] std::size_t granularity() const noexcept { return state_->upstream().granularity(); }
    [[nodiscard]] static constexpr memory_kind kind() noexcept requires kind_is_static<Upstream> {
        return Upstream::kind();
    }
    [[nodiscard]] memory_kind kind() const noexcept requires(!kind_is_static<Upstream>) {
        return state_->upstream().kind();
    }
    [[nodiscard]] cuota::device device() const noexcept requires knows_device<Upstream> {
        return state_->upstream().device();
    }

    friend bool operator==(resource_adaptor_base const&, resource_adaptor_base const&) noexcept = default;

protected:
    ~resource_adaptor_base() = default;
    explicit resource_adaptor_base(intrusive_ptr<State> state) noexcept : state_{std::move(state)} {}

    [[nodiscard]] State const& state() const noexcept { return *state_; }
    [[nodiscard]] intrusive_ptr<State> const& owner() const noexcept { return state_; }

private:
    // Does nothing in a forked child: the memory belongs to the parent process.
    void give(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!state_->is_of_parent()) [[likely]]
            state_->deallocate(order, p, bytes, alignment);
    }

    intrusive_ptr<State> state_;
};

}  // namespace cuota::inline v0::detail
