// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// DLPack's structures, and what C++ calls their element types: how array libraries hand tensors to each other.
#pragma once

/// The inline namespace of what knows DLPack's structures, which are two sets of types: the program's own header is taken
/// where it has the versioned structure, of DLPack 1.0; else they are declared here, as they are laid out there.
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

/// The structures of DLPack's C ABI, with its own names for their members.
namespace dlpack {

#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION == 1
using version = ::DLPackVersion;
using device = ::DLDevice;
using data_type = ::DLDataType;
using tensor = ::DLTensor;
using managed_tensor = ::DLManagedTensorVersioned;
using old_managed_tensor = ::DLManagedTensor;
#else
/// Of the ABI, counted from 1.0: structures of one major version are laid out alike.
struct version {
    std::uint32_t major,  ///< 1 here
        minor;            ///< of that
};
/// Where memory is: a place_of, and which one of those.
struct device {
    std::int32_t device_type,  ///< a place_of
        device_id;             ///< the ordinal; 0 for the host's and managed memory
};
/// What an element is: a kind_of, bits of a lane, lanes of an element.
struct data_type {
    std::uint8_t code,    ///< a kind_of
        bits;             ///< of one lane
    std::uint16_t lanes;  ///< 1, but for vector types
};
/// A tensor without an owner.
struct tensor {
    void* data;                 ///< of the allocation; null when there are no elements
    dlpack::device device;      ///< where that is
    std::int32_t ndim;          ///< axes
    data_type dtype;            ///< of each element
    std::int64_t* shape;        ///< ndim extents, outermost first
    std::int64_t* strides;      ///< ndim steps, in elements; null: row-major without gaps
    std::uint64_t byte_offset;  ///< from data to the first element, in bytes
};
/// A tensor and how it ends, from 1.0 on.
struct managed_tensor {
    dlpack::version version;                ///< of the ABI that it was made by
    void* manager_ctx;                      ///< the producer's own
    void (*deleter)(managed_tensor* self);  ///< called once by who owns it; null: nothing to do
    std::uint64_t flags;                    ///< read_only, or 0
    tensor dl_tensor;                       ///< the tensor
};
/// The same before 1.0: no version, and no flags.
struct old_managed_tensor {
    tensor dl_tensor;                           ///< the tensor
    void* manager_ctx;                          ///< the producer's own
    void (*deleter)(old_managed_tensor* self);  ///< as above
};
#endif

inline constexpr std::uint32_t major_version = 1;  ///< of the tensors made here
inline constexpr std::uint32_t minor_version = 0;  ///< all that is used here
inline constexpr std::uint64_t read_only = 1;      ///< of the flags

/// Where a tensor's memory is.
enum class place_of : std::int32_t {
    cpu = 1,           ///< the host's
    cuda = 2,          ///< a CUDA device's
    cuda_host = 3,     ///< page-locked, the host's
    cuda_managed = 13  ///< of both
};

/// What an element is, beside its bits and lanes.
enum class kind_of : std::uint8_t {
    integer = 0,           ///< signed
    unsigned_integer = 1,  ///< without a sign
    real = 2,              ///< IEEE
    bfloat = 4,            ///< bfloat16
    complex = 5,           ///< two reals side by side; bits of both
    boolean = 6            ///< 0 or 1, mostly 8 bits
};

static_assert(sizeof(version) == 8 && sizeof(device) == 8 && sizeof(data_type) == 4);
static_assert(sizeof(void*) != 8 ||
              (sizeof(tensor) == 48 && offsetof(tensor, device) == 8 && offsetof(tensor, ndim) == 16 &&
               offsetof(tensor, dtype) == 20 && offsetof(tensor, shape) == 24 &&
               offsetof(tensor, strides) == 32 && offsetof(tensor, byte_offset) == 40));
static_assert(sizeof(void*) != 8 ||
              (sizeof(managed_tensor) == 80 && offsetof(managed_tensor, manager_ctx) == 8 &&
               offsetof(managed_tensor, deleter) == 16 && offsetof(managed_tensor, flags) == 24 &&
               offsetof(managed_tensor, dl_tensor) == 32));
static_assert(sizeof(void*) != 8 ||
              (sizeof(old_managed_tensor) == 64 && offsetof(old_managed_tensor, manager_ctx) == 48 &&
               offsetof(old_managed_tensor, deleter) == 56));

}  // namespace dlpack

/// How DLPack calls T: specialise it for a type of the program's own, as of four floats {real, 32, 4}. A constant `value`.
template <class T>
struct dlpack_type_of;

/// Of the numbers of C++, bool a boolean.
template <class T>
    requires std::is_arithmetic_v<T>
struct dlpack_type_of<T> {
    /// Of an integer, an unsigned one, a real or a boolean.
    static constexpr dlpack::kind_of kind = std::same_as<T, bool>    ? dlpack::kind_of::boolean
                                            : std::floating_point<T> ? dlpack::kind_of::real
                                            : std::is_signed_v<T>    ? dlpack::kind_of::integer
                                                                     : dlpack::kind_of::unsigned_integer;
    static_assert(!std::same_as<T, long double>, "DLPack has no name for it");
    /// One lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(kind), 8 * sizeof(T), 1};
};
/// As std::uint8_t.
template <>
struct dlpack_type_of<std::byte> : dlpack_type_of<std::uint8_t> {};
/// Real, 16 bits.
template <>
struct dlpack_type_of<half> {
    /// One lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::kind_of::real), 16, 1};
};
/// Bfloat, 16 bits.
template <>
struct dlpack_type_of<bfloat16> {
    /// One lane.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::kind_of::bfloat), 16, 1};
};
/// Complex, 64 or 128 bits.
template <class T>
    requires(std::same_as<T, float> || std::same_as<T, double>)
struct dlpack_type_of<std::complex<T>> {
    /// One lane of both parts.
    static constexpr dlpack::data_type value{static_cast<std::uint8_t>(dlpack::kind_of::complex),
                                             16 * sizeof(T), 1};
};

/// A type that DLPack has a name for.
template <class T>
concept dlpack_element = std::is_trivially_copyable_v<T> && requires {
    { dlpack_type_of<T>::value } -> std::convertible_to<dlpack::data_type>;
};

}  // namespace cuota::inline v0::inline CUOTA_DLPACK

namespace cuota::inline v0::detail::inline CUOTA_DLPACK {

[[nodiscard]] constexpr bool is_same_type(dlpack::data_type a, dlpack::data_type b) noexcept {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/// "float32", "uint8", "float32 x 4"; of a code that is not known here, its number.
[[nodiscard]] inline std::string type_text(dlpack::data_type type) {
    static constexpr char const* names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    std::string const name =
        type.code < std::size(names) ? names[type.code] : "code" + std::to_string(type.code) + '_';
    return name + std::to_string(type.bits) + (type.lanes == 1 ? "" : " x " + std::to_string(type.lanes));
}

/// "CUDA device 1", "host memory", "pinned host memory", "managed memory", "device type 10".
[[nodiscard]] inline std::string place_text(dlpack::device where) {
    switch (static_cast<dlpack::place_of>(where.device_type)) {
        case dlpack::place_of::cpu: return "host memory";
        case dlpack::place_of::cuda: return "CUDA device " + std::to_string(where.device_id);
        case dlpack::place_of::cuda_host: return "pinned host memory";
        case dlpack::place_of::cuda_managed: return "managed memory";
    }
    return "device type " + std::to_string(static_cast<std::int32_t>(where.device_type));
}

}  // namespace cuota::inline v0::detail::inline CUOTA_DLPACK
