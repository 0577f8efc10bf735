// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A tensor of another library, made by hand.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/lease.hpp>
#include <cuota/interop/dlpack/dlpack_types.hpp>

namespace interop_tests {

/// Holds a tensor's structure, shape and strides, and counts calls of its deleter. Managed: either of DLPack's structures.
template <class Managed = cuota::dlpack::managed_tensor_versioned>
class made_tensor {
public:
    template <class T>
    made_tensor(T* data, std::vector<std::int64_t> extents,
                cuota::dlpack::device_type where = cuota::dlpack::device_type::cuda, int device = 0)
        : extents_{std::move(extents)} {
        if constexpr (std::is_same_v<Managed, cuota::dlpack::managed_tensor_versioned>)
            managed_.version = {1, 1};
        managed_.manager_ctx = this;
        managed_.deleter = [](Managed* self) noexcept {
            ++static_cast<made_tensor*>(self->manager_ctx)->deleted_;
        };
        tensor().data = const_cast<std::remove_const_t<T>*>(data);
        tensor().device = {static_cast<decltype(tensor().device.device_type)>(where), device};
        tensor().dtype = cuota::dlpack_type_of<std::remove_const_t<T>>::value;
        tensor().ndim = static_cast<std::int32_t>(extents_.size());
        tensor().shape = extents_.data();
    }
    made_tensor(made_tensor const&) = delete;
    made_tensor& operator=(made_tensor const&) = delete;

    [[nodiscard]] Managed* get() noexcept { return &managed_; }
    [[nodiscard]] Managed* operator->() noexcept { return &managed_; }
    [[nodiscard]] cuota::dlpack::tensor& tensor() noexcept { return managed_.dl_tensor; }
    void set_strides(std::vector<std::int64_t> strides) {
        strides_ = std::move(strides);
        tensor().strides = strides_.data();
    }
    [[nodiscard]] int deleted() const noexcept { return deleted_; }  ///< number of calls of the deleter

private:
    Managed managed_{};
    std::vector<std::int64_t> extents_;
    std::vector<std::int64_t> strides_;
    std::atomic<int> deleted_ = 0;
};

template <class T>
[[nodiscard]] T* address(cuota::lease<T> const& of) noexcept {
    return of.span().data();
}

struct four_floats {
    float x[4];
};

}  // namespace interop_tests

template <>
struct cuota::dlpack_type_of<interop_tests::four_floats> {
    static constexpr cuota::dlpack::data_type value{static_cast<std::uint8_t>(cuota::dlpack::type_code::real),
                                                    32, 4};
};
