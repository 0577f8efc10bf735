// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The growing array of internal lists. Growing is compiled once for all types.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// Moves `count` elements into uninitialized memory at `to`, and destroys those at `from`.
using relocate_elements = void (*)(void* from, void* to, std::size_t count) noexcept;

/// Like std::partition_point, without `algorithm`, which takes long to compile.
template <class T, class Before>
[[nodiscard]] T* first_not(T* first, std::size_t count, Before is_before) {
    while (count != 0) {
        std::size_t const half = count / 2;
        if (is_before(first[half])) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

/// The memory of a dynamic_array of any type.
struct array_memory {
    void* first = nullptr;
    std::size_t size = 0;
    std::size_t capacity = 0;

    /// Reallocates to a capacity of `wanted` elements of `bytes` bytes, or of 1.5 times the current one if that is more. `move` moves the
    /// elements; if it is null, their bytes are copied.
    /// Throws: std::bad_alloc, std::bad_array_new_length; nothing changes.
    void grow(std::size_t wanted, std::size_t bytes, relocate_elements move);
};

/// A growing array with the names and guarantees of std::vector. Iterators are pointers.
template <class T>
class dynamic_array {
public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = T const*;

    dynamic_array() noexcept = default;
    explicit dynamic_array(std::size_t n) : dynamic_array{} { resize(n); }
    dynamic_array(dynamic_array&& other) noexcept : memory_{std::exchange(other.memory_, {})} {}
    // Delegates, so that the destructor runs if an element's constructor throws.
    dynamic_array(dynamic_array const& other) requires std::is_copy_constructible_v<T> : dynamic_array{} {
        reserve(other.size());
        for (T const& element : other) push_back(element);
    }
    dynamic_array& operator=(dynamic_array const& other) requires std::is_copy_constructible_v<T> {
        return *this = dynamic_array{other};
    }
    dynamic_array& operator=(dynamic_array&& other) noexcept {
        dynamic_array taken{std::move(other)};
        swap(taken);
        return *this;
    }
    ~dynamic_array() {
        clear();
        ::operator delete(memory_.first);
    }

    [[nodiscard]] T* data() noexcept { return static_cast<T*>(memory_.first); }
    [[nodiscard]] T const* data() const noexcept { return static_cast<T const*>(memory_.first); }
    [[nodiscard]] std::size_t size() const noexcept { return memory_.size; }
    [[nodiscard]] std::size_t capacity() const noexcept { return memory_.capacity; }
    [[nodiscard]] bool empty() const noexcept { return memory_.size == 0; }
    [[nodiscard]] T* begin() noexcept { return data(); }
    [[nodiscard]] T const* begin() const noexcept { return data(); }
    [[nodiscard]] T* end() noexcept { return data() + memory_.size; }
    [[nodiscard]] T const* end() const noexcept { return data() + memory_.size; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
    [[nodiscard]] T const& operator[](std::size_t i) const noexcept { return data()[i]; }
    [[nodiscard]] T& front() noexcept { return *data(); }
    [[nodiscard]] T const& front() const noexcept { return *data(); }
    [[nodiscard]] T& back() noexcept { return data()[memory_.size - 1]; }
    [[nodiscard]] T const& back() const noexcept { return data()[memory_.size - 1]; }
    template <class Which>
    [[nodiscard]] T* find_if(Which is_meant) noexcept {
        T* at = begin();
        while (at != end() && !is_meant(*at)) ++at;
        return at;
    }
    template <class Which>
    [[nodiscard]] T const* find_if(Which is_meant) const noexcept {
        T const* at = begin();
        while (at != end() && !is_meant(*at)) ++at;
        return at;
    }
    [[nodiscard]] std::span<T const> as_span() const noexcept { return {data(), memory_.size}; }

    void reserve(std::size_t n) {
        if (n > memory_.capacity) memory_.grow(n, element_bytes, relocation());
    }
    /// `element` may be an element of this array.
    void push_back(T const& element) { emplace_back(T(element)); }
    /// `element` must not be an element of this array.
    void push_back(T&& element) { emplace_back(std::move(element)); }
    /// The arguments must not refer to elements of this array.
    template <class... Args>
    T& emplace_back(Args&&... args) {
        reserve_one();
        T* const made = ::new (static_cast<void*>(end())) T{std::forward<Args>(args)...};
        ++memory_.size;
        return *made;
    }
    T* insert(T const* at, T element) {
        std::size_t const index = static_cast<std::size_t>(at - data());
        emplace_back(std::move(element));
        for (std::size_t i = memory_.size - 1; i != index; --i) std::swap(data()[i], data()[i - 1]);
        return data() + index;
    }
    T* erase(T const* at) noexcept { return erase(at, at + 1); }
    T* erase(T const* first, T const* last) noexcept {
        T* const result = begin() + (first - begin());
        T* to = result;
        for (T* from = begin() + (last - begin()); from != end(); ++from, ++to) *to = std::move(*from);
        shrink(static_cast<std::size_t>(to - begin()));
        return result;
    }
    template <class Which>
    void erase_if(Which is_meant) {
        T* to = begin();
        for (T& element : *this) {
            if (is_meant(element)) continue;
            if (to != &element) *to = std::move(element);
            ++to;
        }
        shrink(static_cast<std::size_t>(to - begin()));
    }
    void pop_back() noexcept { shrink(memory_.size - 1); }
    void clear() noexcept { shrink(0); }
    /// If a constructor throws, the elements made before it remain.
    void resize(std::size_t n) {
        if (n < memory_.size) return shrink(n);
        reserve(n);
        while (memory_.size != n) emplace_back();
    }
    void swap(dynamic_array& other) noexcept { std::swap(memory_, other.memory_); }

private:
    static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

    static constexpr std::size_t element_bytes =
        sizeof(T);  // NOLINT(bugprone-sizeof-expression): T may be a pointer

    static void relocate(void* from, void* to, std::size_t count) noexcept {
        T* const old = static_cast<T*>(from);
        for (std::size_t i = 0; i != count; ++i) {
            ::new (static_cast<void*>(static_cast<T*>(to) + i)) T(std::move(old[i]));
            old[i].~T();
        }
    }
    [[nodiscard]] static constexpr relocate_elements relocation() noexcept {
        if constexpr (std::is_trivially_copyable_v<T>) return nullptr;
        else return relocate;
    }
    void reserve_one() {
        if (memory_.size == memory_.capacity) memory_.grow(memory_.size + 1, element_bytes, relocation());
    }
    void shrink(std::size_t n) noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>)
            for (std::size_t i = n; i != memory_.size; ++i) data()[i].~T();
        memory_.size = n;
    }

    array_memory memory_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cstring>

namespace cuota::inline v0::detail {

CUOTA_INLINE void array_memory::grow(std::size_t wanted, std::size_t bytes, relocate_elements move) {
    std::size_t const half_more = capacity + capacity / 2;
    std::size_t const next = wanted > half_more ? wanted : half_more;
    std::size_t total = 0;
    if (__builtin_mul_overflow(next, bytes, &total)) throw std::bad_array_new_length{};
    void* const fresh = ::operator new(total);
    if (move != nullptr) move(first, fresh, size);
    else if (size != 0) std::memcpy(fresh, first, size * bytes);
    ::operator delete(first);
    first = fresh;
    capacity = next;
}

}  // namespace cuota::inline v0::detail

#endif
