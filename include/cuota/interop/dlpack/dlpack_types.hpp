// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// DLPack's structures and the mapping of element types.
#pragma once

/// Inline namespace of everything that depends on DLPack's structures: those of the program's header from DLPack 1.0 on, else declarations
/// with the same layout.
#if !defined(DLPACK_MAJOR_VERSION) && __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#if !defined(DLPACK_MAJOR_VERSION)
#define CUOTA_DLPACK dlpack_of_cuota
#elif DLPACK_MAJOR_VERSION == 1
#define CUOTA_DLPACK dlpack_of_its_header
#else
#define CUOTA_DLPACK dlpack_of_cuota
#endif

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <cuota/core/half.hpp>

namespace cuota::inline v0::inline CUOTA_DLPACK {

/// DLPack's C ABI, with its names for members.
namespace dlpack {

#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION == 1
using version = ::DLPackVersion;
using device = ::DLDevice;
using data_type = ::DLDataType;
using tensor = ::DLTensor;
using managed_tensor_versioned = ::DLManagedTensorVersioned;
using managed_tensor = ::DLManagedTensor;
#else
/// ABI version; structures of one major version have the same layout.
struct version {
    std::uint32_t major,  ///< 1 here
        minor;            ///< minor version
};
/// Location of memory.
struct device {
    std::int32_t device_type,  ///< a device_type
        device_id;             ///< ordinal; 0 for host and managed memory
};
/// Type of an element.
struct data_type {
    std::uint8_t code,    ///< a type_code
        bits;             ///< bits per lane
    std::uint16_t lanes;  ///< 1, except for vector types
};
/// A tensor without ownership.
struct tensor {
    void* data;                 ///< start of the allocation
    dlpack::device device;      ///< location of data
    std::int32_t ndim;          ///< number of dimensions
    data_type dtype;            ///< element type
    std::int64_t* shape;        ///< ndim extents, outermost first
    std::int64_t* strides;      ///< in elements; null: contiguous row-major
    std::uint64_t byte_offset;  ///< from data to the first element
};
/// A tensor with its deleter, from 1.0 on.
struct managed_tensor_versioned {
    dlpack::version version;                          ///< ABI version of the producer
    void* manager_ctx;                                ///< owned by the producer
    void (*deleter)(managed_tensor_versioned* self);  ///< called once by the owner, unless null
    std::uint64_t flags;                              ///< read_only, or 0
    tensor dl_tensor;                                 ///< the tensor
};
/// A managed tensor before version 1.0.
struct managed_tensor {
    tensor dl_tensor;                       ///< the tensor
    void* manager_ctx;                      ///< owned by the producer
    void (*deleter)(managed_tensor* self);  ///< as above
};
#endif

inline constexpr std::uint32_t major_version = 1;  ///< of exported tensors
inline constexpr std::uint32_t minor_version = 0;  ///< sufficient here
inline constexpr std::uint64_t read_only = 1;      ///< bit of flags

/// DLPack's device type.
enum class device_type : std::int32_t {
    cpu = 1,           ///< host
    cuda = 2,          ///< CUDA device
    cuda_host = 3,     ///< pinned memory
    cuda_managed = 13  ///< managed memory
};

/// DLPack's type code.
enum class type_code : std::uint8_t {
    integer = 0,           ///< signed
    unsigned_integer = 1,  ///< unsigned
    real = 2,              ///< IEEE
    bfloat = 4,            ///< bfloat16
    complex = 5,           ///< `bits` covers both parts
    boolean = 6            ///< 0 or 1, usually 8 bits
};

static_assert(sizeof(version) == 8 && sizeof(device) == 8 && sizeof(data_type) == 4);
static_assert(sizeof(void*) != 8 ||
              (sizeof(tensor) == 48 && offsetof(tensor, device) == 8 && offsetof(tensor, ndim) == 16 &&
               offsetof(tensor, dtype) == 20 && offsetof(tensor, shape) == 24 &&
               offsetof(tensor, strides) == 32 && offsetof(tensor, byte_offset) == 40));
static_assert(sizeof(void*) != 8 || (sizeof(managed_tensor_versioned) == 80 &&
                                     offsetof(managed_tensor_versioned, manager_ctx) == 8 &&
                                     offsetof(managed_tensor_versioned, deleter) == 16 &&
                                     offsetof(managed_tensor_versioned, flags) == 24 &&
                                     offsetof(managed_tensor_versioned, dl_tensor) == 32));
static_assert(sizeof(void*) != 8 ||
              (sizeof(managed_tensor) == 64 && offsetof(managed_tensor, manager_ctx) == 48 &&
               offsetof(managed_tensor, deleter) == 56));

}  // namespace dlpack

/// DLPack's type of T, as a constant `value`. Specialize it for own types, for example {real, 32, 4} for four floats.
template <class T>
struct dlpack_type_of;

/// Arithmetic types; bool is a boolean.
template <class T>
    requires std::is_arithmetic_v<T>
struct dlpack_type_of<T> {
    /// Type code of T.
    static constexpr dlpack::type_code kind = std::same_as<T, bool>    ? dlpack::type_code::boolean
                                              : std::floating_point<T> ? dlpack::type_code::real
                                              : std::is_signed_v<T>    ? dlpack::type_code::integer
                                                                       : dlpack::type_code::unsigned_integer;
    static_assert(!std::same_as<T, long double>, "DLPack has no name for it");
    /// A single lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(kind), 8 * sizeof(T), 1};
};
/// Same as std::uint8_t.
template <>
struct dlpack_type_of<std::byte> : dlpack_type_of<std::uint8_t> {};
/// Real, 16 bits.
template <>
struct dlpack_type_of<half> {
    /// A single lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::type_code::real), 16, 1};
};
/// Bfloat, 16 bits.
template <>
struct dlpack_type_of<bfloat16> {
    /// A single lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::type_code::bfloat), 16, 1};
};
/// Complex, 64 or 128 bits.
template <class T>
    requires(std::same_as<T, float> || std::same_as<T, double>)
struct dlpack_type_of<std::complex<T>> {
    /// A single lane of both parts.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::type_code::complex),
                                             16 * sizeof(T), 1};
};

/// A type that DLPack can describe.
template <class T>
concept dlpack_element = std::is_trivially_copyable_v<T> && requires {
    { dlpack_type_of<T>::value } -> std::convertible_to<dlpack::data_type>;
};

}  // namespace cuota::inline v0::inline CUOTA_DLPACK

namespace cuota::inline v0::detail::inline CUOTA_DLPACK {

[[nodiscard]] constexpr bool is_same_type(dlpack::data_type a, dlpack::data_type b) noexcept {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/// Returns a text such as "float32" or "float32 x 4".
[[nodiscard]] inline std::string type_text(dlpack::data_type type) {
    static constexpr char const* names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    std::string const name =
        type.code < std::size(names) ? names[type.code] : "code" + std::to_string(type.code) + '_';
    return name + std::to_string(type.bits) + (type.lanes == 1 ? "" : " x " + std::to_string(type.lanes));
}

/// Returns a text such as "CUDA device 1" or "device type 10".
[[nodiscard]] inline std::string device_text(dlpack::device where) {
    switch (static_cast<dlpack::device_type>(where.device_type)) {
        case dlpack::device_type::cpu: return "host memory";
        case dlpack::device_type::cuda: return "CUDA device " + std::to_string(where.device_id);
        case dlpack::device_type::cuda_host: return "pinned host memory";
        case dlpack::device_type::cuda_managed: return "managed memory";
    }
    return "device type " + std::to_string(static_cast<std::int32_t>(where.device_type));
}

}  // namespace cuota::inline v0::detail::inline CUOTA_DLPACK
