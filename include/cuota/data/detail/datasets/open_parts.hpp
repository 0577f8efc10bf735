// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Datasets in more files than a process may open at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0::detail {

/// Returns half of the descriptor limit; may be unlimited.
[[nodiscard]] std::size_t descriptors_to_use() noexcept;

/// Opens parts on demand, and closes the least recently used beyond `most`, unless in use.
/// Threads: any. Parts are opened and closed outside the lock.
class open_parts {
public:
    using open_call = light_shared_ptr<void const> (*)(void const* opener, std::string const& path);

    /// Requires most >= 1.
    open_parts(std::vector<std::string> paths, std::size_t most, light_shared_ptr<void const> opener,
               open_call open);

    /// Throws: exceptions of opening; usage_error in a forked child.
    [[nodiscard]] light_shared_ptr<void const> part(std::size_t index);
    [[nodiscard]] std::string const& path(std::size_t index) const { return paths_[index]; }

private:
    struct entry {
        std::size_t index;
        std::uint64_t used;  // larger: more recent
        light_shared_ptr<void const> part;
    };
    // Returns null if it is not open.
    [[nodiscard]] entry* find(std::size_t index) noexcept;

    std::vector<std::string> const paths_;
    std::size_t const most_;
    light_shared_ptr<void const> const opener_;
    open_call const open_;
    object_lock guard_;
    dynamic_array<entry> kept_;
    dynamic_array<std::size_t> place_;  // index + 1 of each part in kept_; 0: not open
    std::uint64_t uses_ = 0;
};

/// One part as a dataset. Throws: data_error if the file's size or fields have changed.
template <dataset S>
class part_dataset {
public:
    static constexpr bool fills_device_memory = detail::fills_device_memory<S>;

    part_dataset(light_shared_ptr<open_parts> from, std::size_t index)
        : from_{std::move(from)}, index_{index} {
        auto const part = from_->part(index_);
        S const& is = of(part);
        size_ = is.size();
        std::span<field const> const all = is.fields();
        fields_ = light_shared_ptr<std::vector<field> const>::make(all.begin(), all.end());
        name_ = is.name();
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<field const> fields() const noexcept { return *fields_; }
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        auto const part = from_->part(index_);
        same(part).gather(samples, out);
    }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const requires gathers_in_context<S> {
        auto const part = from_->part(index_);
        same(part).gather(samples, out, context);
    }
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const requires has_row_counts<S> {
        auto const part = from_->part(index_);
        same(part).row_counts(k, samples, out);
    }

private:
    [[nodiscard]] static S const& of(light_shared_ptr<void const> const& part) noexcept {
        return *static_cast<S const*>(part.get());
    }
    [[nodiscard]] S const& same(light_shared_ptr<void const> const& part) const {
        S const& now = of(part);
        std::span<field const> const all = now.fields();
        bool is_same = now.size() == size_ && all.size() == fields_->size();
        for (std::size_t k = 0; is_same && k != all.size(); ++k) is_same = all[k] == (*fields_)[k];
        if (!is_same)
            throw_data_error(name_, 0,
                             "the file has changed since it was first opened: {} samples of {}, not {} of {}",
                             {now.size(), fields_text(all), size_, fields_text(*fields_)});
        return now;
    }

    light_shared_ptr<open_parts> from_;
    std::size_t index_;
    std::uint64_t size_ = 0;
    light_shared_ptr<std::vector<field> const> fields_;
    std::string name_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <algorithm>

#include <sys/resource.h>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t descriptors_to_use() noexcept {
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return unlimited;
    return now.rlim_cur / 2 + 1;
}

CUOTA_INLINE open_parts::open_parts(std::vector<std::string> paths, std::size_t most,
                                    light_shared_ptr<void const> opener, open_call open)
    : paths_{std::move(paths)}, most_{most}, opener_{std::move(opener)}, open_{open} {
    kept_.reserve(std::min(most_, paths_.size()));
    place_.resize(paths_.size());
}

CUOTA_INLINE light_shared_ptr<void const> open_parts::part(std::size_t index) {
    {
        region_lock const lock{guard_};
        if (entry* const known = find(index)) {
            known->used = ++uses_;
            return known->part;
        }
    }
    light_shared_ptr<void const> mine = open_(opener_.get(), paths_[index]);
    light_shared_ptr<void const> dropped;  // closes after unlocking
    region_lock const lock{guard_};
    if (entry* const known = find(index)) {  // another thread was faster
        dropped = mine;
        return known->part;
    }
    if (kept_.size() < most_) {
        kept_.push_back({index, ++uses_, mine});
        place_[index] = kept_.size();
        return mine;
    }
    entry* oldest = kept_.begin();
    for (entry& each : kept_)
        if (each.used < oldest->used) oldest = &each;
    dropped = oldest->part;
    place_[index] = std::exchange(place_[oldest->index], 0);
    *oldest = {index, ++uses_, mine};
    return mine;
}

CUOTA_INLINE auto open_parts::find(std::size_t index) noexcept -> entry* {
    std::size_t const place = place_[index];
    return place == 0 ? nullptr : &kept_[place - 1];
}

}  // namespace cuota::inline v0::detail

#endif
