// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Exports buffers as DLPack tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/interop/dlpack/dlpack_types.hpp>

namespace cuota::inline v0::inline CUOTA_DLPACK {

/// Extents of a tensor in row-major order, outermost first; without extents, a single element. to_dlpack checks them.
class dlpack_shape {
public:
    dlpack_shape() noexcept =
        default;  ///< a single element; nvcc 13.0 makes {0} of {} if only the initializer list is available
    dlpack_shape(std::initializer_list<std::int64_t> extents) : extents_{extents} {}  ///< outermost first
    /// Copies the extents.
    explicit dlpack_shape(std::span<std::int64_t const> extents) : extents_{extents.begin(), extents.end()} {}

    /// Outermost first.
    [[nodiscard]] std::vector<std::int64_t> const& extents() const noexcept { return extents_; }
    /// Returns the number of elements; nullopt for a negative extent or on overflow.
    [[nodiscard]] std::optional<std::size_t> count() const noexcept {
        bool is_empty = false;
        std::optional<std::size_t> count = 1;
        for (std::int64_t const n : extents_) {
            if (n < 0) return std::nullopt;
            is_empty |= n == 0;
            if (count && n != 0) count = checked_mul(*count, static_cast<std::size_t>(n));
        }
        return is_empty ? std::optional<std::size_t>{0} : count;
    }
    /// Returns a text such as "(2, 3)".
    [[nodiscard]] std::string text() const {
        std::string all = "(";
        for (std::int64_t const n : extents_) all += (all.size() == 1 ? "" : ", ") + std::to_string(n);
        return all + ')';
    }

private:
    std::vector<std::int64_t> extents_;
};

/// An exported tensor until its consumer owns it. Move-only.
///
/// The new owner calls `release`, and the deleter once after the last use, from any thread, even after the pool's scope. The destructor
/// deletes a tensor that was not released.
/// Throws: nothing unless stated. Threads: one at a time.
class dlpack_tensor {
public:
    /// `other` has no tensor afterwards: its release returns null, and other uses are misuse.
    dlpack_tensor(dlpack_tensor&&) noexcept = default;
    dlpack_tensor& operator=(dlpack_tensor&&) noexcept = default;  ///< deletes its own tensor first

    /// Valid until release.
    [[nodiscard]] dlpack::tensor const& tensor() const { return owned().dl_tensor; }
    /// Returns whether consumers must not write to it.
    [[nodiscard]] bool is_read_only() const { return (owned().flags & dlpack::read_only) != 0; }

    /// Transfers ownership, for a capsule named "dltensor_versioned".
    [[nodiscard]] dlpack::managed_tensor_versioned* release() && noexcept { return owned_.release(); }
    /// Transfers ownership, for a capsule named "dltensor" and a consumer of DLPack before 1.0, which cannot mark a tensor as read-only.
    /// Throws: usage_error for a read-only tensor; std::bad_alloc. Unchanged on failure.
    [[nodiscard]] dlpack::managed_tensor* release_unversioned(
        source_location where = source_location::current()) && {
        if (is_read_only())
            detail::throw_usage_error(where,
                                      "dlpack_tensor: cannot export a read-only tensor to a consumer of "
                                      "DLPack before 1.0, which could write to it");
        auto made = std::make_unique<dlpack::managed_tensor>();
        made->dl_tensor = owned_->dl_tensor;
        made->manager_ctx = owned_.release();
        made->deleter = [](dlpack::managed_tensor* self) noexcept {
            ender{}(static_cast<dlpack::managed_tensor_versioned*>(self->manager_ctx));
            delete self;
        };
        return made.release();
    }

    /// For to_dlpack.
    explicit dlpack_tensor(dlpack::managed_tensor_versioned* owned) noexcept : owned_{owned} {}

private:
    [[nodiscard]] dlpack::managed_tensor_versioned const& owned() const {
        if (!owned_)
            detail::throw_usage_error("a dlpack_tensor was used after it was moved from or released");
        return *owned_;
    }
    struct ender {
        void operator()(dlpack::managed_tensor_versioned* t) const noexcept { t->deleter(t); }
    };
    std::unique_ptr<dlpack::managed_tensor_versioned, ender> owned_;
};

/// Device type of exported host memory: some consumers do not support pinned memory.
enum class dlpack_host {
    pinned,  ///< cuda_host
    plain    ///< cpu
};

}  // namespace cuota::inline v0::inline CUOTA_DLPACK

// Not inside the next namespace: nvcc writes detail::CUOTA_VIEWS::name for names of detail, which would then be ambiguous.
namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

/// A lease on device elements and their owner; the lease is destroyed first.
template <class T, class Owner>
struct kept_on_device {
    std::optional<Owner> owner;
    std::optional<lease<T>> use;
};

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

namespace cuota::inline v0::detail::inline CUOTA_DLPACK {

/// Everything that a tensor needs until its deleter is called.
template <class Kept>
struct dlpack_holder {
    dlpack::managed_tensor_versioned managed{};
    std::vector<std::int64_t> extents;
    std::vector<std::int64_t> strides;
    Kept kept;
};

/// The caller sets `kept` and the data.
template <class T, class Kept>
[[nodiscard]] std::unique_ptr<dlpack_holder<Kept>> holder_of(dlpack_shape const& shape, std::size_t count,
                                                             source_location where) {
    if (shape.count() != count)
        detail::throw_usage_error(where, "to_dlpack: shape {} does not match {} elements",
                                  {shape.text(), count});
    auto made = std::make_unique<dlpack_holder<Kept>>();
    made->extents = shape.extents();
    made->strides.resize(made->extents.size());
    std::int64_t stride = 1;
    for (std::size_t i = made->extents.size(); i-- != 0;) {
        made->strides[i] = stride;
        if (count != 0) stride *= made->extents[i];
    }
    dlpack::managed_tensor_versioned& managed = made->managed;
    managed.version = {dlpack::major_version, dlpack::minor_version};
    managed.manager_ctx = made.get();
    managed.deleter = [](dlpack::managed_tensor_versioned* self) noexcept {
        delete static_cast<dlpack_holder<Kept>*>(self->manager_ctx);
    };
    if constexpr (std::is_const_v<T>) managed.flags = dlpack::read_only;
    dlpack::tensor& tensor = managed.dl_tensor;
    tensor.ndim = static_cast<std::int32_t>(made->extents.size());
    tensor.dtype = dlpack_type_of<std::remove_const_t<T>>::value;
    tensor.shape = made->extents.data();
    tensor.strides = made->strides.data();
    return made;
}

template <class T, class Kept>
[[nodiscard]] dlpack_tensor tensor_of(std::unique_ptr<dlpack_holder<Kept>> made, T* data,
                                      dlpack::device_type where, int ordinal) noexcept {
    dlpack::tensor& tensor = made->managed.dl_tensor;
    tensor.data = const_cast<std::remove_const_t<T>*>(data);
    tensor.device = {static_cast<decltype(tensor.device.device_type)>(where), ordinal};
    return dlpack_tensor{&made.release()->managed};
}

template <class T>
[[nodiscard]] dlpack::device_type device_type_of(device_buffer<T> const& of) noexcept {
    return of.memory().kind() == memory_kind::managed ? dlpack::device_type::cuda_managed
                                                      : dlpack::device_type::cuda;
}
/// DLPack requires 0 for managed memory. Throws: cuda_error.
template <class T>
[[nodiscard]] int ordinal_of(device_buffer<T> const& of) {
    return device_type_of(of) == dlpack::device_type::cuda ? of.home().device().ordinal() : 0;
}

template <class T>
[[nodiscard]] dlpack_tensor shared_on_device(auto of, dlpack_shape const& shape, stream_ref consumer,
                                             source_location where) {
    using kept = kept_on_device<T, decltype(of)>;
    if (!of) detail::throw_usage_error(where, "to_dlpack: the buffer is null");
    auto made = holder_of<T, kept>(shape, of->size(), where);
    int const ordinal = ordinal_of(*of);
    if constexpr (std::is_const_v<T>) made->kept.use.emplace(of->read(consumer, where));
    else made->kept.use.emplace(of->write(consumer, where));
    T* const data = made->kept.use->span().data();
    auto const at = device_type_of(*of);
    made->kept.owner.emplace(std::move(of));
    return tensor_of(std::move(made), data, at, ordinal);
}

template <class T>
[[nodiscard]] dlpack_tensor shared_on_host(auto of, std::span<T> all, dlpack_shape const& shape,
                                           dlpack_host called, source_location where) {
    auto made = holder_of<T, decltype(of)>(shape, all.size(), where);
    made->kept = std::move(of);
    return tensor_of(
        std::move(made), all.data(),
        called == dlpack_host::pinned ? dlpack::device_type::cuda_host : dlpack::device_type::cpu, 0);
}

}  // namespace cuota::inline v0::detail::inline CUOTA_DLPACK

namespace cuota::inline v0::inline CUOTA_DLPACK {

/// Exports a buffer as a tensor that owns it. The deleter frees the memory in the order of the buffer's home stream, after all work
/// enqueued on `consumer` before the deleter is called.
///
/// `consumer` is the stream that uses the tensor first, as given to `__dlpack__(stream=...)` (dlpack_stream). It waits for earlier uses of
/// the buffer. The consumer orders work on other streams with it. A native handle must exist until the deleter is called.
/// Throws:  usage_error if the shape has another count, and while the buffer is borrowed on another stream; cuda_error, std::bad_alloc. The
///          buffer is unchanged on failure.
/// Threads: any may call the deleter.
/// Cost:    a small object on the heap; the host does not wait.
/// Example:
///     cuota::dlpack_tensor moved = cuota::to_dlpack(std::move(buffer), {2, 3}, stream);
///     return capsule(std::move(moved).release(), "dltensor_versioned");
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(device_buffer<T>&& from, dlpack_shape const& shape, stream_ref consumer,
                                      source_location where = source_location::current()) {
    auto made = detail::holder_of<T, detail::kept_on_device<T, device_buffer<T>>>(shape, from.size(), where);
    int const ordinal = detail::ordinal_of(from);
    auto const at = detail::device_type_of(from);
    made->kept.use.emplace(from.write(consumer, where));
    T* const data = made->kept.use->span().data();
    made->kept.owner.emplace(std::move(from));
    return detail::tensor_of(std::move(made), data, at, ordinal);
}
/// Same, with all elements in one dimension.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(device_buffer<T>&& from, stream_ref consumer,
                                      source_location where = source_location::current()) {
    return to_dlpack(std::move(from), {static_cast<std::int64_t>(from.size())}, consumer, where);
}

/// Exports a view of a shared buffer: borrows it on `consumer` for writing, and keeps it, until the deleter is called. Throws: as above;
/// usage_error for null.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(std::shared_ptr<device_buffer<T>> of, dlpack_shape const& shape,
                                      stream_ref consumer,
                                      source_location where = source_location::current()) {
    return detail::shared_on_device<T>(std::move(of), shape, consumer, where);
}
/// Same for reading, which others may do concurrently.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(std::shared_ptr<device_buffer<T> const> of, dlpack_shape const& shape,
                                      stream_ref consumer,
                                      source_location where = source_location::current()) {
    return detail::shared_on_device<T const>(std::move(of), shape, consumer, where);
}

/// Exports pinned memory as a host tensor that owns it. Waits for pending copies in both directions. Throws: as above.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(pinned_buffer<T>&& from, dlpack_shape const& shape,
                                      dlpack_host called = dlpack_host::pinned,
                                      source_location where = source_location::current()) {
    std::span<T> const all = from.write();
    auto made = detail::holder_of<T, std::optional<pinned_buffer<T>>>(shape, all.size(), where);
    made->kept.emplace(std::move(from));
    return detail::tensor_of(
        std::move(made), all.data(),
        called == dlpack_host::pinned ? dlpack::device_type::cuda_host : dlpack::device_type::cpu, 0);
}
/// Exports a view of shared pinned memory. Accesses by its other owners and by the consumer are not ordered. Throws: as above; usage_error
/// for null.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(std::shared_ptr<pinned_buffer<T>> of, dlpack_shape const& shape,
                                      dlpack_host called = dlpack_host::pinned,
                                      source_location where = source_location::current()) {
    if (!of) detail::throw_usage_error(where, "to_dlpack: the buffer is null");
    std::span<T> const all = of->write();
    return detail::shared_on_host(std::move(of), all, shape, called, where);
}
/// Same for reading.
template <dlpack_element T>
[[nodiscard]] dlpack_tensor to_dlpack(std::shared_ptr<pinned_buffer<T> const> of, dlpack_shape const& shape,
                                      dlpack_host called = dlpack_host::pinned,
                                      source_location where = source_location::current()) {
    if (!of) detail::throw_usage_error(where, "to_dlpack: the buffer is null");
    std::span<T const> const all = of->read();
    return detail::shared_on_host(std::move(of), all, shape, called, where);
}

/// Returns the stream that `__dlpack__(stream=...)` names for a CUDA device: 1 is the legacy default stream, 2 the per-thread one, a larger
/// number a native handle. Returns nullopt for -1: the consumer orders its work itself; pass the buffer's home. Throws: usage_error for 0,
/// which DLPack forbids, and below -1.
[[nodiscard]] inline std::optional<stream_ref> dlpack_stream(
    std::int64_t number, source_location where = source_location::current()) {
    if (number == -1) return std::nullopt;
    if (number <= 0)
        detail::throw_usage_error(
            where,
            "DLPack stream {} is not valid; expected 1 or 2 (default streams), a handle, or -1 (no order)",
            {number});
    return stream_ref{reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(number))};
}
/// Returns a stream's number for `__dlpack__`.
[[nodiscard]] inline std::int64_t dlpack_stream_number(stream_ref s) noexcept {
    auto const word = reinterpret_cast<std::uintptr_t>(s.get());
    return word == 0 ? 1 : static_cast<std::int64_t>(word);
}

}  // namespace cuota::inline v0::inline CUOTA_DLPACK
