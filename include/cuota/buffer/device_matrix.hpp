// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A bounds-checked view of a matrix in device memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0 {

namespace detail {

template <class Mapping>
using strides_of = decltype(std::declval<Mapping const&>().strides());

// A rank-2 mdspan of T, of any library, with dynamic extents and strides.
template <class Mdspan, class T>
concept mdspan_of_rows = requires(T* data, typename Mdspan::extents_type extents,
                                  strides_of<typename Mdspan::mapping_type> strides) {
    requires std::same_as<typename Mdspan::element_type, T>;
    requires(Mdspan::rank() == 2 && Mdspan::rank_dynamic() == 2);
    requires(sizeof(typename Mdspan::index_type) >= sizeof(std::size_t));
    Mdspan{data, typename Mdspan::mapping_type{extents, strides}};
};

}  // namespace detail

inline namespace CUOTA_VIEWS {

/// A non-owning view of a row-major matrix in device memory, with rows that start `pitch()` elements apart. Passed to kernels by value and
/// checked like device_span.
///
///     auto const weights = w.read(s);
///     cuota::device_matrix const m{weights, rows, columns};  // valid as long as the lease
///
/// Units:   elements.
/// Throws:  usage_error as stated, in kernels only in checked builds.
/// Threads: as the memory.
template <class T>
class CUOTA_POINTER device_matrix {
public:
    using element_type = T;  ///< const if read-only

    /// Makes a matrix of 0 rows.
    CUOTA_HOST_DEVICE constexpr device_matrix() noexcept : data_{nullptr}, rows_{0}, columns_{0}, pitch_{0} {}
    /// Views all elements of a span. Throws: usage_error if `of.size() != rows * columns`.
    CUOTA_HOST_DEVICE device_matrix(device_span<T> of, std::size_t rows, std::size_t columns)
        : device_matrix{of, rows, columns, columns, is_all(of.size(), rows, columns)} {}
    /// Views rows that start `pitch` elements apart. Throws: usage_error if rows overlap or the last one exceeds the span.
    CUOTA_HOST_DEVICE device_matrix(device_span<T> of, std::size_t rows, std::size_t columns,
                                    std::size_t pitch)
        : device_matrix{of, rows, columns, pitch, is_part(of.size(), rows, columns, pitch)} {}
    // The lease would end before the matrix is used.
    template <class U, std::convertible_to<std::size_t>... Extents>
    device_matrix(lease<U> const&&, Extents...) = delete;
    /// Converts to read-only.
    template <class U>
    requires std::same_as<T, U const> CUOTA_HOST_DEVICE constexpr device_matrix(
        device_matrix<U> other) noexcept
        : device_matrix{other.data(), other.rows(), other.columns(), other.pitch(), other.origin()} {}

    /// Returns the address of the first element, which host code must not access.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
    /// Number of rows.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t rows() const noexcept { return rows_; }
    /// Elements per row.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t columns() const noexcept { return columns_; }
    /// Returns the elements between the starts of two rows.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t pitch() const noexcept { return pitch_; }
    /// `rows() * columns()`, without padding.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t size() const noexcept { return rows_ * columns_; }
    /// Returns `size() == 0`.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_empty() const noexcept { return size() == 0; }
    /// Returns the origin; empty in unchecked builds.
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr detail::view_origin origin() const noexcept {
#if CUOTA_CHECKED
        return origin_;
#else
        return {};
#endif
    }

    /// Returns an element, in kernels only. Throws: as device_span.
    [[nodiscard]] CUOTA_KERNEL T& operator()(std::size_t row, std::size_t column) const {
#if CUOTA_CHECKED
        if (row >= rows_ || column >= columns_) refuse(detail::out_of_bounds::part::cell, row, column);
        origin_.expect_kernel("device_matrix");
#endif
        return data_[row * pitch_ + column];
    }
#if defined(__cpp_multidimensional_subscript)
    /// Same as operator() (C++23).
    [[nodiscard]] CUOTA_KERNEL T& operator[](std::size_t row, std::size_t column) const {
        return (*this)(row, column);
    }
#endif

    /// Returns a row. Throws: usage_error if `row >= rows()`.
    [[nodiscard]] CUOTA_HOST_DEVICE device_span<T> row(std::size_t row) const {
        if (row >= rows_) refuse(detail::out_of_bounds::part::row, row);
        return {data_ + row * pitch_, columns_, origin()};
    }
    /// Returns the view of `rows` x `columns` elements that starts at (row, column). Throws: usage_error if it exceeds this one.
    [[nodiscard]] CUOTA_HOST_DEVICE device_matrix submatrix(std::size_t row, std::size_t column,
                                                            std::size_t rows, std::size_t columns) const {
        if (!detail::is_within(row, rows, rows_) || !detail::is_within(column, columns, columns_))
            refuse(detail::out_of_bounds::part::submatrix, row, column, rows, columns);
        return {data_ + row * pitch_ + column, rows, columns, pitch_, origin()};
    }

    /// Converts to an unchecked mdspan with layout_stride, two dynamic extents and an index_type as wide as std::size_t.
    CUOTA_NO_EXEC_CHECK
    template <detail::mdspan_of_rows<T> Mdspan>
    [[nodiscard]] CUOTA_HOST_DEVICE constexpr operator Mdspan() const {
        using mapping = typename Mdspan::mapping_type;
        using index = typename Mdspan::index_type;
        using extents = typename Mdspan::extents_type;
        return Mdspan{data_, mapping{extents{static_cast<index>(rows_), static_cast<index>(columns_)},
                                     detail::strides_of<mapping>{static_cast<index>(pitch_), index{1}}}};
    }

private:
    template <class>
    friend class device_matrix;
    CUOTA_HOST_DEVICE constexpr device_matrix(T* data, std::size_t rows, std::size_t columns,
                                              std::size_t pitch,
                                              [[maybe_unused]] detail::view_origin origin) noexcept
        : data_{data}, rows_{rows}, columns_{columns}, pitch_{pitch} {
#if CUOTA_CHECKED
        origin_ = origin;
#endif
    }
    CUOTA_HOST_DEVICE device_matrix(device_span<T> of, std::size_t rows, std::size_t columns,
                                    std::size_t pitch, bool fits)
        : device_matrix{of.data(), rows, columns, pitch, of.origin()} {
        if (!fits)
            origin().template refuse<T>(
                {detail::out_of_bounds::part::matrix, {rows, columns, pitch}, {of.size()}});
    }

    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr bool is_all(std::size_t size, std::size_t rows,
                                                                 std::size_t columns) noexcept {
        return rows == 0 || columns == 0 ? size == 0 : size % columns == 0 && size / columns == rows;
    }
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr bool is_part(std::size_t size, std::size_t rows,
                                                                  std::size_t columns,
                                                                  std::size_t pitch) noexcept {
        if (pitch < columns) return false;
        if (rows == 0 || columns == 0) return true;
        return columns <= size && (rows == 1 || (size - columns) / pitch >= rows - 1);
    }

    CUOTA_HOST_DEVICE void refuse(detail::out_of_bounds::part what, std::size_t a, std::size_t b = 0,
                                  std::size_t c = 0, std::size_t d = 0) const {
        origin().template refuse<T>({what, {a, b, c, d}, {rows_, columns_}});
    }

    T* data_;
    std::size_t rows_, columns_, pitch_;
#if CUOTA_CHECKED
    detail::view_origin origin_;
#endif
};

/// Deduces T from a lease, which must outlive the matrix.
template <class T>
device_matrix(lease<T> const&, std::size_t, std::size_t) -> device_matrix<T>;
/// Same, with a pitch.
template <class T>
device_matrix(lease<T> const&, std::size_t, std::size_t, std::size_t) -> device_matrix<T>;

static_assert(std::is_trivially_copyable_v<device_matrix<float>>);
static_assert(CUOTA_CHECKED || sizeof(device_matrix<float>) == sizeof(void*) + 3 * sizeof(std::size_t));

}  // namespace CUOTA_VIEWS

}  // namespace cuota::inline v0
