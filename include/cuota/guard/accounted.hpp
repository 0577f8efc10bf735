// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What resources that keep accounts of another one's memory have in common.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <cuota/core/shared.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0::detail {

template <class R>
concept knows_device = requires(R const& r) {
    { r.device() } -> std::convertible_to<device>;
};

/// A resource over Upstream whose books all copies share. Books have upstream(), and make the calls:
///
///     allocate(bytes, who, take, give)  take(upstream) gives the memory, give(upstream, p) returns it
///     deallocate(p, bytes, give)        noexcept
template <resource Upstream, class Books>
class accounted {
public:
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        return books_->allocate(
            bytes, who, [&](Upstream& up) { return allocate_labelled(up, s, bytes, alignment, who); },
            [&](Upstream& up, void* p) { up.deallocate(s, p, bytes, alignment); });
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        books_->deallocate(p, bytes, [&](Upstream& up, void* q) { up.deallocate(s, q, bytes, alignment); });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        return books_->allocate(
            bytes, who, [&](Upstream& up) { return allocate_sync_labelled(up, bytes, alignment, who); },
            [&](Upstream& up, void* p) { up.deallocate_sync(p, bytes, alignment); });
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        books_->deallocate(p, bytes, [&](Upstream& up, void* q) { up.deallocate_sync(q, bytes, alignment); });
    }

    [[nodiscard]] std::size_t granule() const noexcept { return books_->upstream().granule(); }
    [[nodiscard]] static constexpr memory_kind kind() noexcept requires kind_is_static<Upstream> {
        return Upstream::kind();
    }
    [[nodiscard]] memory_kind kind() const noexcept requires(!kind_is_static<Upstream>) {
        return books_->upstream().kind();
    }
    [[nodiscard]] cuota::device device() const noexcept requires knows_device<Upstream> {
        return books_->upstream().device();
    }

    friend bool operator==(accounted const&, accounted const&) noexcept = default;

protected:
    explicit accounted(shared<Books> books) noexcept : books_{std::move(books)} {}

    [[nodiscard]] Books const& books() const noexcept { return *books_; }

private:
    shared<Books> books_;
};

}  // namespace cuota::inline v0::detail
