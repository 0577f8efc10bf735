// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One RAII template for every native handle.
#pragma once

#include <utility>

#include <cuota/version.hpp>

namespace cuota::inline v0 {

/// Owns a native handle as `Traits` describes it: `type`, `none()`, `close(type) noexcept`.
///
/// Move-only; moved-from is empty. `close` reports its own failures: nobody can catch them here.
template <class Traits>
class unique_handle {
public:
    using native = typename Traits::type;

    unique_handle() noexcept = default;
    explicit unique_handle(native handle) noexcept : handle_{handle} {}
    unique_handle(unique_handle&& other) noexcept : handle_{other.release()} {}
    unique_handle& operator=(unique_handle&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~unique_handle() { reset(); }

    [[nodiscard]] native get() const noexcept { return handle_; }
    [[nodiscard]] native release() noexcept { return std::exchange(handle_, Traits::none()); }
    void reset(native handle = Traits::none()) noexcept {
        native const old = std::exchange(handle_, handle);
        if (old != Traits::none() && old != handle) Traits::close(old);
    }
    explicit operator bool() const noexcept { return handle_ != Traits::none(); }

private:
    native handle_ = Traits::none();
};

}  // namespace cuota::inline v0
