// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Imports DLPack tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/detail/access_tracker.hpp>
#include <cuota/buffer/detail/buffer_access.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/interop/dlpack/dlpack_types.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail::inline CUOTA_DLPACK {

/// An imported tensor. The destructor calls the deleter, but not in a forked child, where the tensor is the parent's. Move-only.
class dlpack_owner {
public:
    explicit dlpack_owner(dlpack::managed_tensor_versioned* t) noexcept
        : owned_{t},
          end_{[](void* self) {
              auto* const mine = static_cast<dlpack::managed_tensor_versioned*>(self);
              if (mine->deleter) mine->deleter(mine);
          }},
          // Only the deleter may be read if the major version differs.
          tensor_{t && t->version.major == dlpack::major_version ? &t->dl_tensor : nullptr},
          version_{t ? t->version.major : 0},
          is_read_only_{tensor_ && (t->flags & dlpack::read_only) != 0} {}
    explicit dlpack_owner(dlpack::managed_tensor* t) noexcept
        : owned_{t},
          end_{[](void* self) {
              auto* const mine = static_cast<dlpack::managed_tensor*>(self);
              if (mine->deleter) mine->deleter(mine);
          }},
          tensor_{t ? &t->dl_tensor : nullptr} {}
    dlpack_owner(dlpack_owner&& other) noexcept
        : owned_{std::exchange(other.owned_, nullptr)},
          end_{other.end_},
          tensor_{other.tensor_},
          version_{other.version_},
          is_read_only_{other.is_read_only_},
          made_{other.made_} {}
    dlpack_owner& operator=(dlpack_owner&&) = delete;
    ~dlpack_owner() {
        if (owned_ && !made_.is_of_parent()) report_failure_of([this] { end_(owned_); });
    }

    /// Throws: usage_error for null and for another major version.
    [[nodiscard]] dlpack::tensor const& tensor(source_location where) const {
        if (!owned_) detail::throw_usage_error(where, "DLPack tensor: the pointer is null");
        if (!tensor_)
            detail::throw_usage_error(where, "DLPack tensor: version {} is not supported; supported: {}",
                                      {version_, dlpack::major_version});
        return *tensor_;
    }
    [[nodiscard]] bool is_read_only() const noexcept { return is_read_only_; }

private:
    void* owned_;
    void (*end_)(void*);
    dlpack::tensor const* tensor_;
    std::uint32_t version_ = 0;
    bool is_read_only_ = false;
    process_mark made_;
};

/// Throws usage_error.
[[noreturn]] inline void refuse_tensor(std::string const& why, source_location where) {
    detail::throw_usage_error(where, "DLPack tensor: {}", {why});
}

/// Throws: usage_error, std::bad_alloc.
[[nodiscard]] inline std::vector<std::int64_t> extents_of(dlpack::tensor const& t, source_location where) {
    if (t.ndim < 0 || (t.ndim != 0 && !t.shape))
        refuse_tensor(std::to_string(t.ndim) + " dimensions" + (t.ndim < 0 ? "" : ", but no shape"), where);
    std::vector<std::int64_t> extents(t.shape, t.shape + t.ndim);
    for (std::int64_t const n : extents)
        if (n < 0) refuse_tensor("negative extent " + std::to_string(n), where);
    return extents;
}

/// Throws: usage_error if the bytes overflow.
[[nodiscard]] inline std::size_t count_of(std::vector<std::int64_t> const& extents, std::size_t size,
                                          source_location where) {
    for (std::int64_t const n : extents)
        if (n == 0) return 0;
    std::optional<std::size_t> bytes = size;
    for (std::int64_t const n : extents)
        if (bytes) bytes = checked_mul(*bytes, static_cast<std::size_t>(n));
    if (!bytes || *bytes > static_cast<std::size_t>(INT64_MAX))
        refuse_tensor("the size in bytes overflows std::int64_t", where);
    return *bytes / size;
}

/// Null strides mean contiguous elements in row-major order.
inline void check_strides(dlpack::tensor const& t, std::vector<std::int64_t> const& extents,
                          source_location where) {
    if (!t.strides) return;
    std::int64_t expected = 1;
    for (std::size_t i = extents.size(); i-- != 0;) {
        if (extents[i] != 1 && t.strides[i] != expected)
            refuse_tensor("not contiguous: dimension " + std::to_string(i) + " has a stride of " +
                              std::to_string(t.strides[i]) + " elements, not " + std::to_string(expected) +
                              "; make it contiguous first",
                          where);
        expected *= extents[i];
    }
}

/// Throws: usage_error for a null address with elements, and for a misaligned one.
template <class T>
[[nodiscard]] T* data_of(dlpack::tensor const& t, std::size_t count, source_location where) {
    if (count == 0) return nullptr;
    auto const base = reinterpret_cast<std::uintptr_t>(t.data);
    if (base == 0) refuse_tensor("the address of " + std::to_string(count) + " elements is null", where);
    if (t.byte_offset > UINTPTR_MAX - base) refuse_tensor("byte_offset is beyond the address space", where);
    std::uintptr_t const at = base + static_cast<std::uintptr_t>(t.byte_offset);
    if (at % alignof(T) != 0)
        refuse_tensor("the elements are not aligned to " + std::to_string(alignof(T)) +
                          " bytes: the offset is " + std::to_string(t.byte_offset),
                      where);
    return reinterpret_cast<T*>(at);
}

/// An imported tensor with the type and layout of T. Move-only.
template <class T>
class typed_tensor {
public:
    /// On failure, the deleter has been called.
    typed_tensor(dlpack_owner&& from, source_location where) : owner_{std::move(from)} {
        dlpack::tensor const& t = owner_.tensor(where);
        check_type(t.dtype, where);
        if (owner_.is_read_only() && !std::is_const_v<T>)
            refuse_tensor("read-only; use const elements", where);
        extents_ = extents_of(t, where);
        count_ = count_of(extents_, sizeof(T), where);
        if (count_ != 0) check_strides(t, extents_, where);
        data_ = data_of<T>(t, count_, where);
    }
    typed_tensor(typed_tensor&& other) noexcept
        : owner_{std::move(other.owner_)},
          extents_{std::exchange(other.extents_, {})},
          count_{std::exchange(other.count_, 0)},
          data_{std::exchange(other.data_, nullptr)} {}

    [[nodiscard]] dlpack::device where(source_location from) const { return owner_.tensor(from).device; }
    [[nodiscard]] std::vector<std::int64_t> const& extents() const noexcept { return extents_; }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    [[nodiscard]] T* data() const noexcept { return data_; }

private:
    static void check_type(dlpack::data_type is, source_location where) {
        constexpr dlpack::data_type wanted = dlpack_type_of<std::remove_const_t<T>>::value;
        if (!is_same_type(is, wanted))
            refuse_tensor("the element type is " + type_text(is) + ", not " + type_text(wanted), where);
    }

    dlpack_owner owner_;
    std::vector<std::int64_t> extents_;
    std::size_t count_ = 0;
    T* data_ = nullptr;
};

}  // namespace cuota::inline v0::detail::inline CUOTA_DLPACK

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Device memory of another library, accessed like a device_buffer; see from_dlpack.
///
/// The destructor calls the producer's deleter once, after the work of all leases: the host waits for that work, or the producer's stream
/// does if it was given. Move-only. Throws, threads: as device_buffer.
/// Cost: as device_buffer's leases. No budget is charged.
template <class T>
class imported_buffer {
    static_assert(dlpack_element<std::remove_const_t<T>>,
                  "DLPack has no name for this type: see dlpack_type_of");

public:
    using value_type = std::remove_const_t<T>;  ///< without const

    /// `other` has no elements afterwards and calls no deleter.
    imported_buffer(imported_buffer&& other) noexcept
        : tensor_{std::move(other.tensor_)},
          uses_{std::move(other.uses_)},
          home_{other.home_},
          producer_{other.producer_} {}
    imported_buffer& operator=(imported_buffer&&) = delete;  // it could block on the old tensor
    ~imported_buffer() {
        if (auto* const uses = uses_.take()) end(*uses);
    }

    /// Elements, of all dimensions.
    [[nodiscard]] std::size_t size() const noexcept { return tensor_.count(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return size() * sizeof(T); }  ///< of the elements
    [[nodiscard]] bool is_empty() const noexcept { return size() == 0; }             ///< no elements
    /// Outermost first.
    [[nodiscard]] std::vector<std::int64_t> const& extents() const noexcept { return tensor_.extents(); }
    /// Stream on which the producer made it ready.
    [[nodiscard]] stream_ref home() const noexcept { return home_; }

    /// Borrows the elements for reading. Order: s waits for the home stream and earlier writers. Throws: usage_error, cuda_error.
    [[nodiscard]] lease<value_type const> read(stream_ref s,
                                               source_location where = source_location::current()) const {
        return {*this, s, where};
    }
    /// Same for writing. Order: s waits for the home stream and all earlier uses on other streams.
    [[nodiscard]] lease<value_type> write(
        stream_ref s, source_location where = source_location::current()) requires(!std::is_const_v<T>) {
        return {*this, s, where};
    }

    /// For from_dlpack.
    imported_buffer(detail::typed_tensor<T>&& from, stream_ref home,
                    std::optional<stream_ref> producer) noexcept
        : tensor_{std::move(from)}, home_{home} {
        if (producer) producer_.emplace(*producer);
    }

private:
    template <class>
    friend class lease;

    [[nodiscard]] T* data() const noexcept { return tensor_.data(); }
    [[nodiscard]] detail::view_origin origin(source_location leased) const noexcept {
        return detail::view_origin::of_lease("DLPack tensor", leased);
    }
    [[nodiscard]] detail::access_tracker& uses() const {
        return uses_.of([this] { return home(); });
    }
    void end(detail::access_tracker& uses) noexcept {
        if (detail::process_number::is_cuda_of_parent()) return;
        uses.end_at_home();
        if (producer_ && report_failure_of([this] { detail::order_after_work_of(*producer_, home()); }))
            return;
        rt::drain(home());
    }

    detail::typed_tensor<T> tensor_;
    mutable detail::buffer_access uses_;
    shared_stream home_;
    std::optional<shared_stream> producer_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

namespace cuota::inline v0::inline CUOTA_DLPACK {

/// Host memory of another library; see from_dlpack_on_host. The destructor calls the deleter once. Move-only; moved-from has no elements.
/// Accesses by streams are not ordered. Throws: nothing. Threads: one at a time.
template <class T>
class imported_host_buffer {
    static_assert(dlpack_element<std::remove_const_t<T>>,
                  "DLPack has no name for this type: see dlpack_type_of");

public:
    /// Elements, of all dimensions.
    [[nodiscard]] std::size_t size() const noexcept { return tensor_.count(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return size() * sizeof(T); }  ///< of the elements
    [[nodiscard]] bool is_empty() const noexcept { return size() == 0; }             ///< no elements
    /// Outermost first.
    [[nodiscard]] std::vector<std::int64_t> const& extents() const noexcept { return tensor_.extents(); }
    /// Valid as long as this object; does not wait.
    [[nodiscard]] std::span<T const> read() const noexcept { return {tensor_.data(), tensor_.count()}; }
    /// Same for writing.
    [[nodiscard]] std::span<T> write() noexcept requires(!std::is_const_v<T>) {
        return {tensor_.data(), tensor_.count()};
    }

    /// For from_dlpack_on_host.
    explicit imported_host_buffer(detail::typed_tensor<T>&& from) noexcept : tensor_{std::move(from)} {}

private:
    detail::typed_tensor<T> tensor_;
};

/// Imports a tensor in device memory. The caller must have renamed its capsule to "used_dltensor_versioned" (or "used_dltensor"). The
/// deleter is called once: by the destructor of the result, or before this throws.
///
/// - `ready_on` is the stream that the producer was given, `__dlpack__(stream=dlpack_stream_number(s))`. Leases on other streams wait for
///   it. If the producer was given -1, or the tensor comes from C, the caller must order the producer's work before.
/// - `producer` is the stream on which the producer will free or reuse the memory. Without it, the host waits for the leases' work before
///   the deleter is called.
/// - T must be const for a read-only tensor.
///
/// Cost:    copies the extents; no host wait.
/// Threads: any, one per tensor.
/// Throws:  usage_error for null, another major version, another type than T, memory neither of the stream's device nor managed, elements
///          not contiguous in row-major order, a misaligned address; cuda_error, std::bad_alloc.
/// Example:
///     auto const theirs = cuota::from_dlpack<float const>(tensor, stream);  // a managed_tensor_versioned*, of either structure
///     scale(theirs.read(stream), mine.write(stream), stream);
template <class T, class Managed>
[[nodiscard]] imported_buffer<T> from_dlpack(Managed* tensor, stream_ref ready_on,
                                             std::optional<stream_ref> producer = std::nullopt,
                                             source_location where = source_location::current()) {
    detail::typed_tensor<T> typed{detail::dlpack_owner{tensor}, where};
    dlpack::device const at = typed.where(where);
    device const wanted = ready_on.device();
    auto const type = static_cast<dlpack::device_type>(at.device_type);
    bool const is_here = type == dlpack::device_type::cuda_managed ||
                         (type == dlpack::device_type::cuda && at.device_id == wanted.ordinal());
    if (!is_here)
        detail::refuse_tensor("in " + detail::device_text(at) + ", not on CUDA device " +
                                  std::to_string(wanted.ordinal()),
                              where);
    return {std::move(typed), ready_on, producer};
}

/// Same for host memory: pinned, managed or pageable. The producer's enqueued work on it must have finished.
/// Example:
///     auto const table = cuota::from_dlpack_on_host<float const>(tensor);
template <class T, class Managed>
[[nodiscard]] imported_host_buffer<T> from_dlpack_on_host(
    Managed* tensor, source_location where = source_location::current()) {
    detail::typed_tensor<T> typed{detail::dlpack_owner{tensor}, where};
    dlpack::device const at = typed.where(where);
    auto const type = static_cast<dlpack::device_type>(at.device_type);
    if (type != dlpack::device_type::cpu && type != dlpack::device_type::cuda_host &&
        type != dlpack::device_type::cuda_managed)
        detail::refuse_tensor("in " + detail::device_text(at) + ", not in host memory", where);
    return imported_host_buffer<T>{std::move(typed)};
}

}  // namespace cuota::inline v0::inline CUOTA_DLPACK
