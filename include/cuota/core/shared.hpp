// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Smart pointers that compile fast: `shared` (intrusive_ptr), `sole` (unique_ptr), `sole_array`, and `shared_value` (shared_ptr). With
/// `shared`, a stateful resource is an 8-byte handle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/process.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Returns p and sets it to null. std::exchange costs the compiler 1 ms for each type.
template <class T>
[[nodiscard]] constexpr T* taken(T*& p) noexcept {
    T* const had = p;
    p = nullptr;
    return had;
}

}  // namespace detail

/// Base of reference-counted objects. The count starts at 1; `shared` maintains it.
/// Threads: any. Cost: an atomic operation per change. Example: tests/core/shared.cpp
class ref_counted {
public:
    ref_counted() noexcept = default;
    ref_counted(ref_counted const&) = delete;
    ref_counted& operator=(ref_counted const&) = delete;

    /// Increments the count. The caller must be an owner.
    void add_owner() const noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }

    /// Decrements the count. Returns true if it was the last owner's: the caller must delete the object. Always false in a forked child for
    /// an object of its parent.
    [[nodiscard]] bool drop_owner() const noexcept;

    /// Increments the count unless it is 0; returns whether it did. For registries: the object's destructor removes its entry under the
    /// registry's lock, so the memory still exists.
    [[nodiscard]] bool try_add_owner() const noexcept;

    /// Returns true in a forked child for an object of its parent, which must not be used there and is never deleted.
    [[nodiscard]] bool is_of_parent() const noexcept { return made_.is_of_parent(); }

    /// Returns the current count, which other threads may change.
    [[nodiscard]] std::size_t owners() const noexcept { return owners_.load(std::memory_order_acquire); }

protected:
    ~ref_counted() = default;

private:
    mutable std::atomic<std::uint32_t> owners_ = 1;
    detail::process_mark const made_;
};

/// A shared owner (intrusive_ptr) of a T that derives from ref_counted, in 8 bytes. The last owner deletes the object.
/// T may be incomplete where handles are declared; copying or destroying one requires its definition, or the explicit instantiation
/// `template class shared<T>` in cuota.cpp.
/// Threads: like std::shared_ptr: different handles to one object from any thread.
/// Cost: a copy is an atomic increment; a move is free. Example: tests/core/shared.cpp
template <class T>
class shared {
public:
    constexpr shared() noexcept = default;
    /// Adds an owner.
    shared(shared const& other) noexcept;
    /// Transfers ownership; `other` is empty afterwards.
    shared(shared&& other) noexcept : object_{detail::taken(other.object_)} {}
    /// Shares the object of `other` and drops the previous one.
    shared& operator=(shared other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~shared();

    /// Constructs an object with one owner. Throws: std::bad_alloc, exceptions of the constructor.
    template <class... Args>
    [[nodiscard]] static shared make(Args&&... args) {
        return adopt(new T(std::forward<Args>(args)...));
    }
    /// Takes over a count of the caller: from `new`, `detach` or a successful try_add_owner.
    [[nodiscard]] static shared adopt(T* object) noexcept {
        shared result;
        result.object_ = object;
        return result;
    }
    /// Adds an owner of an object that already has one.
    [[nodiscard]] static shared of(T& object) noexcept;
    /// Passes the count to the caller without decrementing it.
    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }               ///< null if empty
    T* operator->() const noexcept { return object_; }                      ///< must not be empty
    T& operator*() const noexcept { return *object_; }                      ///< must not be empty
    explicit operator bool() const noexcept { return object_ != nullptr; }  ///< false if empty
    /// Compares addresses.
    friend bool operator==(shared const&, shared const&) noexcept = default;

private:
    T* object_ = nullptr;
};

/// The only owner of a T, like std::unique_ptr, which costs the compiler 5 ms for each T. T may be incomplete in a class with such a
/// member, if the class's constructors and destructor are defined where T is complete.
/// Threads: like a pointer. Example: tests/core/shared.cpp
template <class T>
class sole {
public:
    sole() noexcept = default;
    sole(std::nullptr_t) noexcept {}  ///< empty
    /// Takes ownership of an object made by `new`.
    explicit sole(T* object) noexcept : object_{object} {}
    /// Transfers ownership; `other` is empty afterwards.
    sole(sole&& other) noexcept : object_{detail::taken(other.object_)} {}
    /// Transfers ownership of an object of a derived type; T must have a virtual destructor.
    template <class U>
        requires std::is_convertible_v<U*, T*> sole(sole<U> other)
    noexcept : object_{other.detach()} {}
    /// Transfers ownership and deletes the previous object.
    sole& operator=(sole other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~sole() { delete object_; }

    /// Constructs an object. Throws: std::bad_alloc, exceptions of the constructor.
    template <class... Args>
    [[nodiscard]] static sole make(Args&&... args) {
        return sole{new T(std::forward<Args>(args)...)};
    }

    /// Releases ownership to the caller.
    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }               ///< null if empty
    T* operator->() const noexcept { return object_; }                      ///< must not be empty
    T& operator*() const noexcept { return *object_; }                      ///< must not be empty
    explicit operator bool() const noexcept { return object_ != nullptr; }  ///< false if empty

private:
    T* object_ = nullptr;
};

/// The only owner of an array. Its length is not stored. Threads: like a pointer. Example: tests/core/shared.cpp
template <class T>
class sole_array {
public:
    sole_array() noexcept = default;
    /// Transfers ownership; `other` is empty afterwards.
    sole_array(sole_array&& other) noexcept : first_{detail::taken(other.first_)} {}
    /// Transfers ownership and deletes the previous array.
    sole_array& operator=(sole_array other) noexcept {
        std::swap(first_, other.first_);
        return *this;
    }
    ~sole_array() { delete[] first_; }

    /// Makes n value-initialized elements. Throws: std::bad_alloc, exceptions of their constructor.
    [[nodiscard]] static sole_array make(std::size_t n) {
        sole_array result;
        result.first_ = new T[n]{};
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return first_; }               ///< null if empty
    T& operator[](std::size_t i) const noexcept { return first_[i]; }      ///< must not be empty
    explicit operator bool() const noexcept { return first_ != nullptr; }  ///< false if empty

private:
    T* first_ = nullptr;
};

namespace detail {

/// The reference-counted cell of a shared_value, which destroys the value.
class shared_cell : public ref_counted {
public:
    CUOTA_INLINE_IN_PLACE virtual ~shared_cell();
};

template <class T>
struct cell_of final : shared_cell {
    template <class... Args>
    explicit cell_of(Args&&... args) : value(std::forward<Args>(args)...) {}
    T value;
};

}  // namespace detail

/// A shared owner of a value of any type, like std::shared_ptr, which takes four times as long to compile. T may be incomplete except in
/// `make`.
/// A move is a copy, so that an object with such a member, such as a source, stays valid when it is moved from.
/// Threads: like std::shared_ptr: different handles to one value from any thread.
/// Cost: a copy is an atomic increment. Example: tests/core/shared.cpp
template <class T>
class shared_value {
public:
    constexpr shared_value() noexcept = default;
    constexpr shared_value(std::nullptr_t) noexcept {}  ///< empty
    /// Adds an owner.
    shared_value(shared_value const& other) noexcept : value_{other.value_}, cell_{other.cell_} {}
    /// Shares the value of `other` as a base class, as const, or as void, which only keeps it alive.
    template <class U>
        requires std::is_convertible_v<U*, T*> shared_value(shared_value<U> other)
    noexcept : value_{detail::taken(other.value_)}, cell_{std::move(other.cell_)} {}
    /// Shares the value of `other` and drops the previous one.
    shared_value& operator=(shared_value other) noexcept {
        std::swap(value_, other.value_);
        std::swap(cell_, other.cell_);
        return *this;
    }
    ~shared_value() = default;

    /// Constructs a value with one owner. Throws: std::bad_alloc, exceptions of the constructor.
    template <class... Args>
    [[nodiscard]] static shared_value make(Args&&... args) {
        auto* const cell = new detail::cell_of<T>(std::forward<Args>(args)...);
        shared_value result;
        result.value_ = &cell->value;
        result.cell_ = shared<detail::shared_cell>::adopt(cell);
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return value_; }  ///< null if empty
    T* operator->() const noexcept { return value_; }         ///< must not be empty
    /// Must not be empty.
    template <class U = T>
    U& operator*() const noexcept {
        return *value_;
    }
    explicit operator bool() const noexcept { return value_ != nullptr; }  ///< false if empty

private:
    template <class U>
    friend class shared_value;
    T* value_ = nullptr;
    shared<detail::shared_cell> cell_;
};

// Not inline with separate definitions, so that a file with `extern template class shared<T>` needs only the declaration of T.

template <class T>
CUOTA_INLINE_IN_PLACE shared<T>::shared(shared const& other) noexcept : object_{other.object_} {
    if (object_) object_->add_owner();
}

template <class T>
CUOTA_INLINE_IN_PLACE shared<T>::~shared() {
    if (object_ && object_->drop_owner()) delete object_;
}

template <class T>
CUOTA_INLINE_IN_PLACE shared<T> shared<T>::of(T& object) noexcept {
    object.add_owner();
    return adopt(&object);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE_IN_PLACE detail::shared_cell::~shared_cell() = default;

CUOTA_INLINE bool ref_counted::drop_owner() const noexcept {
    return owners_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !is_of_parent();
}

CUOTA_INLINE bool ref_counted::try_add_owner() const noexcept {
    auto now = owners_.load(std::memory_order_relaxed);
    while (now != 0)
        if (owners_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    return false;
}

}  // namespace cuota::inline v0

#endif
