// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Owning, stream-ordered array in device memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/detail/buffer_access.hpp>
#include <cuota/buffer/detail/check_part.hpp>
#include <cuota/buffer/detail/fill.hpp>
#include <cuota/buffer/detail/filled_vector.hpp>
#include <cuota/buffer/detail/owned_block.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/buffer/released_buffer.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0 {

class budget;

/// Tag: elements are uninitialized.
struct no_init_t {};
inline constexpr no_init_t no_init{};  ///< the tag's value

/// Tag: all bytes zero, the default.
struct zeroed_t {};
inline constexpr zeroed_t zeroed{};  ///< the tag's value

/// Tag for resize: the present elements are not needed.
struct discard_t {};
inline constexpr discard_t discard{};  ///< the tag's value

/// Region of a copy between buffers.
struct copy_region {
    std::size_t from = 0;   ///< index in the source
    std::size_t to = 0;     ///< index in the target
    std::size_t count = 0;  ///< elements
};

namespace detail {

template <class Budget>
constexpr void needs_a_resource() noexcept {
    static_assert(
        !std::is_same_v<Budget, Budget>,
        "device_buffer needs a resource, not a budget: pass scoped_pool{budget}, or for a single buffer "
        "budgeted<device_memory>{budget}");
}

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// `size()` elements of T in device memory.
///
/// The memory becomes valid and is freed in the order of the home stream, which the buffer keeps alive. Kernels access elements through
/// leases, `read(s)` and `write(s)`. A lease on another stream waits for the home stream and earlier writers, and the deallocation is
/// ordered after every lease; the host does not wait.
///
/// Move-only; a moved-from or default-constructed buffer is empty, and the former can be resized. Zero elements are allowed.
/// Units:   counts are elements.
/// Throws:  budget_exceeded or out_of_memory if memory is refused; usage_error, also for memory that kernels cannot access; cuda_error.
///          Operations that throw have no effect.
/// Threads: different buffers from any thread; leases of one buffer from any, other members from one at a time.
/// Cost:    one allocation, one deallocation, and a fill if requested; the host waits only for copies from host elements. The first lease
///          allocates a small object on the heap. If the home is cudaStreamPerThread, each lease there records an event, and other threads
///          must borrow on their own streams and may wait (docs/streams_and_leases.md).
/// Example: examples/first.cpp, examples/one_budget.cpp
template <class T>
class device_buffer {
    static_assert(std::is_trivially_copyable_v<T>,
                  "T must be trivially copyable: device memory is copied byte by byte");
    static_assert(!std::is_const_v<T>, "T must not be const: the elements could not be written");
    static_assert(alignof(T) <= default_alignment, "T must not require an alignment above 256 bytes");

public:
    using value_type = T;  ///< never const

    /// Makes an empty buffer without a resource, for a member that is assigned later. Its home is cudaStreamLegacy; it cannot be resized.
    device_buffer() noexcept = default;
    /// Allocates `count` elements; all bytes are zero.
    device_buffer(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : device_buffer{count, home, memory, zeroed, name, where} {}
    /// Same, with an explicit tag.
    device_buffer(element_count count, stream_ref home, resource_ref const& memory, zeroed_t, tag name = {},
                  source_location where = source_location::current())
        : device_buffer{count, home, memory, no_init, name, where} {
        rt::fill_bytes(data(), 0, bytes(), home, where);
    }
    /// Allocates `count` copies of `value`.
    device_buffer(element_count count, T const& value, stream_ref home, resource_ref const& memory,
                  tag name = {}, source_location where = source_location::current())
        : device_buffer{count, home, memory, no_init, name, where} {
        detail::fill<T>(data(), size(), value, home, where);
    }
    /// Allocates `count` uninitialized elements.
    device_buffer(element_count count, stream_ref home, resource_ref const& memory, no_init_t, tag name = {},
                  source_location where = source_location::current())
        : block_{home, memory, detail::bytes_of(count, label_for<T>(name, where)), label_for<T>(name, where)},
          name_{name} {}
    /// Copies host elements and waits.
    device_buffer(std::span<T const> host, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : device_buffer{host.size(), home, memory, no_init, name, where} {
        copy_from(host, home, where);
    }
    /// Same for listed values.
    device_buffer(std::initializer_list<T> values, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current())
        : device_buffer{std::span<T const>{values.begin(), values.size()}, home, memory, name, where} {}
    /// Does not compile: a budget is no resource.
    template <std::same_as<budget> B, class... Rest>
    device_buffer(element_count, stream_ref, B const&, Rest const&...) {
        detail::needs_a_resource<B>();
    }
    /// Same.
    template <std::same_as<budget> B, class... Rest>
    device_buffer(element_count, T const&, stream_ref, B const&, Rest const&...) {
        detail::needs_a_resource<B>();
    }
    /// Same.
    template <std::same_as<budget> B, class... Rest>
    device_buffer(std::span<T const>, stream_ref, B const&, Rest const&...) {
        detail::needs_a_resource<B>();
    }
    // Kernels would fault on host memory.
    template <host_only_resource R, class... Rest>
    device_buffer(std::size_t, stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_buffer(std::size_t, T const&, stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_buffer(std::span<T const>, stream_ref, R, Rest...) = delete;

    /// Moves memory and open leases; `other` is empty and keeps resource and home stream.
    device_buffer(device_buffer&& other) noexcept
        : block_{std::move(other.block_)}, uses_{std::move(other.uses_)}, name_{other.name_} {}
    /// Frees its own memory in the order of its leases; then moves.
    device_buffer& operator=(device_buffer&& other) noexcept {
        if (this == &other) return *this;
        end_uses();
        block_ = std::move(other.block_);
        uses_ = std::move(other.uses_);
        name_ = other.name_;
        return *this;
    }
    device_buffer(device_buffer const&) = delete;  // a copy costs device memory and a transfer; use clone
    device_buffer& operator=(device_buffer const&) = delete;
    ~device_buffer() { end_uses(); }

    /// Exchanges everything, also open leases.
    void swap(device_buffer& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(uses_, other.uses_);
        std::swap(name_, other.name_);
    }
    friend void swap(device_buffer& a, device_buffer& b) noexcept { a.swap(b); }  ///< no CUDA call

    [[nodiscard]] std::size_t size() const noexcept { return bytes() / sizeof(T); }  ///< elements
    /// Returns the requested bytes.
    [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes(); }
    /// Returns `size() == 0`.
    [[nodiscard]] bool is_empty() const noexcept { return bytes() == 0; }
    /// Returns the home stream.
    [[nodiscard]] stream_ref home() const noexcept { return block_.home(); }
    /// Returns the resource.
    [[nodiscard]] any_resource memory() const noexcept { return block_.memory(); }

    /// Borrows the elements for reads by work on s, which waits for the home stream and earlier writers.
    [[nodiscard]] lease<T const> read(stream_ref s,
                                      source_location where = source_location::current()) const {
        return {*this, s, where};
    }
    /// Same, on the home stream.
    [[nodiscard]] lease<T const> read(source_location where = source_location::current()) const {
        return read(home(), where);
    }

    /// Borrows the elements for reads and writes by work on s, which waits for the home stream and all earlier uses.
    [[nodiscard]] lease<T> write(stream_ref s, source_location where = source_location::current()) {
        return {*this, s, where};
    }
    /// Same, on the home stream.
    [[nodiscard]] lease<T> write(source_location where = source_location::current()) {
        return write(home(), where);
    }

    /// Replaces all elements and waits. Throws: usage_error if counts differ.
    void copy_from(std::span<T const> host, stream_ref s,
                   source_location where = source_location::current()) {
        check_count(host.size(), where);
        copy_from(host, 0, s, where);
    }
    /// Replaces the elements from `offset` on by host.size() others and waits. Throws: usage_error if they exceed the buffer.
    void copy_from(std::span<T const> host, std::size_t offset, stream_ref s,
                   source_location where = source_location::current()) {
        check_part(offset, host.size(), where);
        rt::check_not_capturing(s, "device_buffer: cannot wait for a copy",
                                "copy before the capture, or from a pinned_buffer", where);
        lease<T> const mine = detail::leases_for_copies::write(*this, s, where);
        rt::copy_to_device(data() + offset, host.data(), host.size_bytes(), s, where);
        rt::synchronize_or_drain(s, where);
    }

    /// Copies all elements to the host and waits. Throws: usage_error if counts differ.
    void copy_to(std::span<T> host, stream_ref s, source_location where = source_location::current()) const {
        check_count(host.size(), where);
        copy_to(host, 0, s, where);
    }
    /// Copies host.size() elements from `offset` on to the host and waits. Throws: usage_error if they exceed the buffer.
    void copy_to(std::span<T> host, std::size_t offset, stream_ref s,
                 source_location where = source_location::current()) const {
        check_part(offset, host.size(), where);
        rt::check_not_capturing(s, "device_buffer: cannot wait for a copy",
                                "copy after the capture, or to a pinned_buffer", where);
        lease<T const> const mine = detail::leases_for_copies::read(*this, s, where);
        rt::copy_to_host(host.data(), data() + offset, host.size_bytes(), s, where);
        rt::synchronize_or_drain(s, where);
    }
    /// Same, to a vector. Throws: also std::bad_alloc.
    [[nodiscard]] std::vector<T> to_vector(stream_ref s,
                                           source_location where = source_location::current()) const {
        return detail::filled_vector<T>(size(), [&](std::span<T> host) { copy_to(host, s, where); });
    }

    /// Replaces all elements by another buffer's, on any device, in the order of s. Throws: usage_error if counts differ.
    void copy_from(device_buffer const& from, stream_ref s,
                   source_location where = source_location::current()) {
        check_count(from.size(), where);
        copy_from(from, {0, 0, size()}, s, where);
    }
    /// Replaces some elements by those of any buffer. Throws: usage_error if the region exceeds a buffer, or overlaps itself.
    void copy_from(device_buffer const& from, copy_region part, stream_ref s,
                   source_location where = source_location::current()) {
        from.check_part(part.from, part.count, where);
        check_part(part.to, part.count, where);
        if (part.count == 0) return;
        if (&from == this && part.from == part.to) return;
        if (&from == this) check_apart(part, where);
        lease<T const> const source = detail::leases_for_copies::read(from, s, where);
        lease<T> const target = detail::leases_for_copies::write(*this, s, where);
        rt::copy_anywhere(data() + part.to, from.data() + part.from, part.count * sizeof(T), s, where);
    }

    /// Sets all bytes to zero in the order of s.
    void zero(stream_ref s, source_location where = source_location::current()) { zero(0, size(), s, where); }
    /// Same for elements [offset, offset + count). Throws: usage_error if the range exceeds the buffer.
    void zero(std::size_t offset, std::size_t count, stream_ref s,
              source_location where = source_location::current()) {
        check_part(offset, count, where);
        if (count == 0) return;
        lease<T> const mine = write(s, where);
        rt::fill_bytes(data() + offset, 0, count * sizeof(T), s, where);
    }
    /// Sets all elements to copies of value in the order of s.
    void fill(T const& value, stream_ref s, source_location where = source_location::current()) {
        fill(value, 0, size(), s, where);
    }
    /// Same for elements [offset, offset + count). Throws: usage_error if the range exceeds the buffer.
    void fill(T const& value, std::size_t offset, std::size_t count, stream_ref s,
              source_location where = source_location::current()) {
        check_part(offset, count, where);
        if (count == 0) return;
        lease<T> const mine = write(s, where);
        detail::fill<T>(data() + offset, count, value, s, where);
    }

    /// Returns a copy from the same resource with home stream s, made in the order of s.
    [[nodiscard]] device_buffer clone(stream_ref s, tag name = {},
                                      source_location where = source_location::current()) const {
        device_buffer copy{size(), s, block_.memory(), no_init, name, where};
        lease<T const> const mine = detail::leases_for_copies::read(*this, s, where);
        rt::copy_on_device(copy.data(), data(), bytes(), s, where);
        return copy;
    }

    /// Changes the count: remaining elements keep their values, new ones are zero. Allocates the new memory before it frees the old. An
    /// empty `name` keeps the present one. Throws: usage_error while borrowed.
    void resize(element_count count, tag name = {}, source_location where = source_location::current()) {
        if (count == size()) return;
        device_buffer next = resized(count, name, where);
        if (count > size())
            rt::fill_bytes(next.data() + size(), 0, (count - size()) * sizeof(T), home(), where);
        replace_by(std::move(next));
    }
    /// Same; new elements are copies of value.
    template <class V = T>
        requires(std::convertible_to<V const&, T> && !std::convertible_to<V const&, char const*>)
    void resize(element_count count, V const& value, tag name = {},
                source_location where = source_location::current()) {
        if (count == size()) return;
        device_buffer next = resized(count, name, where);
        if (count > size()) detail::fill<T>(next.data() + size(), count - size(), value, home(), where);
        replace_by(std::move(next));
    }
    /// Same; new elements are uninitialized.
    void resize(element_count count, no_init_t, tag name = {},
                source_location where = source_location::current()) {
        if (count != size()) replace_by(resized(count, name, where));
    }
    /// Same; all elements are uninitialized.
    void resize(element_count count, discard_t, tag name = {},
                source_location where = source_location::current()) {
        if (count == size()) return;
        check_not_borrowed("be resized", where);
        replace_by({count, home(), block_.memory(), no_init, or_mine(name), where});
    }

    /// Returns the memory, for code that requires a pointer; the buffer is empty afterwards. Order: later work on the home stream is
    /// ordered after all uses so far. Throws: usage_error while borrowed.
    [[nodiscard]] released_buffer<T> release(source_location where = source_location::current()) {
        check_not_borrowed("be released", where);
        rt::check_not_capturing(home(), "device_buffer: cannot be released",
                                "release it before or after the capture", where);
        end_uses();
        return released_buffer<T>{std::move(block_)};
    }

private:
    template <class>
    friend class lease;
    template <class>
    friend class mirrored_buffer;
    template <class>
    friend class append_buffer;

    [[nodiscard]] T* data() const noexcept { return static_cast<T*>(block_.at()); }

    [[nodiscard]] detail::view_origin origin(source_location leased) const noexcept {
        return detail::view_origin::of_lease(name_, leased);
    }
    [[nodiscard]] detail::access_tracker& uses() const {
        return uses_.of([this] { return home(); });
    }
    void end_uses() noexcept {
        if (auto* const uses = uses_.take()) [[unlikely]]
            uses_.end_at_home(*uses);
    }

    // Copies the remaining elements.
    [[nodiscard]] device_buffer resized(std::size_t count, tag name, source_location where) const {
        check_not_borrowed("be resized", where);
        device_buffer next{count, home(), block_.memory(), no_init, or_mine(name), where};
        lease<T const> const mine = read(home(), where);
        rt::copy_on_device(next.data(), data(), std::min(bytes(), next.bytes()), home(), where);
        return next;
    }
    [[nodiscard]] tag or_mine(tag name) const noexcept { return name.is_empty() ? name_ : name; }
    void replace_by(device_buffer next) noexcept { *this = std::move(next); }

    void check_not_borrowed(char const* done, source_location where) const {
        uses_.refuse_while_borrowed(done, where);
    }
    void check_not_written(char const* done, source_location where) const {
        uses_.refuse_while_borrowed(done, where, true);
    }
    void check_part(std::size_t offset, std::size_t count, source_location where) const {
        detail::check_part("device_buffer", "a buffer", offset, count, size(), where);
    }
    static void check_apart(copy_region part, source_location where) {
        std::size_t const apart = part.from < part.to ? part.to - part.from : part.from - part.to;
        if (apart < part.count)
            detail::throw_usage_error(
                where, "device_buffer: cannot copy {} from {} to {} of one buffer: the ranges overlap",
                {detail::counted(part.count, "elements"), part.from, part.to});
    }
    void check_count(std::size_t count, source_location where) const {
        if (count != size())
            detail::throw_usage_error(where, "device_buffer: cannot copy {} to or from a buffer of {}",
                                      {detail::counted(count, "elements"), size()});
    }

    detail::owned_block block_;
    mutable detail::buffer_access uses_;
    tag name_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
