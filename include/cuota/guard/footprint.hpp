// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Planned memory use, and the largest batch that fits a budget.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/batch_fit.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>

namespace cuota::inline v0 {

/// Number of equal allocations: `copies(2)`.
struct copies {
    explicit constexpr copies(std::size_t n) noexcept : count{n} {}  ///< 0: the part uses no memory
    std::size_t count;                                               ///< number of allocations
};

/// A plan of allocations, of fixed size or per sample of a batch.
///
///     footprint plan;
///     plan.add<float>("weights", n).add<float>("adam", n, copies(2)).per_sample<float>("activations", 4096);
///     plan.check(budget, 256);                                // throws budget_exceeded; charges nothing
///     std::size_t const batch = plan.largest_batch(budget).batch;
///     reservation const mine = plan.reserve(budget, batch);
///
/// Each copy of a part is one allocation, rounded up to the granularity of the plan's resource. A pool is charged by the page, so a plan for
/// its blocks is made by pool_footprint. A pool with the plan's bytes as its `initial_size` serves all parts from one segment.
///
/// Units:   bytes; `unlimited` for a sum that overflows, which never fits.
/// Threads: any for const members, while no parts are added.
/// Throws:  std::bad_alloc; usage_error for a granularity that is not a power of two.
/// Cost:    a sum over the parts; about 64 for the largest batch.
/// Example: examples/one_budget.cpp
class footprint {
public:
    /// `copies` allocations of `count` elements, or of `count` elements per sample.
    struct part {
        tag name{};                     ///< for messages
        std::size_t count = 0;          ///< elements of one copy, or per sample
        std::size_t unit_bytes = 1;     ///< bytes of one element
        std::size_t copies = 1;         ///< number of allocations
        bool per_sample = false;        ///< false: independent of the batch
        std::size_t granularity = 0;    ///< 0: that of the plan
        char const* unit = "elements";  ///< for text; must outlive the plan
        source_location where{};        ///< call site

        /// Returns the bytes of all copies.
        [[nodiscard]] std::size_t bytes(std::size_t batch) const noexcept;
        /// Returns the bytes without rounding.
        [[nodiscard]] std::size_t requested(std::size_t batch) const noexcept { return total(batch, 1); }
        /// Returns whether the bytes depend on the batch.
        [[nodiscard]] bool depends_on_batch() const noexcept;

    private:
        [[nodiscard]] std::size_t total(std::size_t batch, std::size_t rounding) const noexcept;
    };

    /// Makes a plan for device memory.
    footprint() noexcept = default;
    /// Makes a plan for this resource's memory.
    explicit footprint(any_resource const& source) noexcept : granularity_{source.granularity()} {}
    /// Makes a plan with parts rounded up to multiples of `granularity`.
    [[nodiscard]] static footprint with_granularity(std::size_t granularity,
                                                    source_location where = source_location::current());

    /// Makes a plan for blocks that are rounded up to `granularity` and together fill pages of `page_bytes`. For a pool: pool_footprint.
    [[nodiscard]] static footprint with_pages(std::size_t granularity, std::size_t page_bytes,
                                              source_location where = source_location::current());

    /// Adds `times` allocations of `count` elements.
    template <class T>
    footprint& add(tag name, std::size_t count, copies times = copies{1},
                   source_location where = source_location::current()) {
        return add({name, count, sizeof(T), times.count, false, 0, unit_name<T>(), where});
    }
    /// Adds `times` allocations of `count` elements per sample.
    template <class T>
    footprint& per_sample(tag name, std::size_t count, copies times = copies{1},
                          source_location where = source_location::current()) {
        return add({name, count, sizeof(T), times.count, true, 0, unit_name<T>(), where});
    }
    /// Adds a part, for element sizes known at run time.
    footprint& add(part p);
    /// Adds another plan's parts, with their granularities; the larger page counts.
    footprint& add(footprint const& other);

    /// Returns the parts in order; valid until one is added.
    [[nodiscard]] std::vector<part> const& parts() const noexcept { return parts_; }
    /// Returns whether the bytes depend on the batch.
    [[nodiscard]] bool depends_on_batch() const noexcept;

    /// Returns the bytes at a batch size; at 0 those of the fixed parts.
    [[nodiscard]] std::size_t bytes(std::size_t batch) const noexcept;
    /// Returns whether the budget has the bytes available now.
    [[nodiscard]] bool fits(budget const& b, std::size_t batch) const noexcept;

    /// Throws budget_exceeded unless it `fits`, naming the largest parts and batch. Only `reserve` guarantees the bytes.
    void check(budget const& b, std::size_t batch, source_location where = source_location::current()) const;

    /// Reserves the plan's bytes. Throws: as budget::reserve.
    [[nodiscard]] reservation reserve(budget b, std::size_t batch,
                                      source_location where = source_location::current()) const;

    /// Returns the bytes of a plan that does not depend on the batch. Throws: usage_error if it does, as the overloads below.
    [[nodiscard]] std::size_t bytes(source_location where = source_location::current()) const {
        return bytes(no_batch(where));
    }
    /// Like fits(b, batch).
    [[nodiscard]] bool fits(budget const& b, source_location where = source_location::current()) const;
    /// Like check(b, batch).
    void check(budget const& b, source_location where = source_location::current()) const {
        check(b, no_batch(where), where);
    }
    /// Like reserve(b, batch).
    [[nodiscard]] reservation reserve(budget b, source_location where = source_location::current()) const;

    /// Returns the largest batch that fits into the budget's available bytes.
    [[nodiscard]] batch_fit largest_batch(budget const& b) const noexcept;
    /// Returns the largest batch that fits into `available` bytes.
    [[nodiscard]] batch_fit largest_batch_in(std::size_t available) const noexcept;

    /// Returns the largest parts, with bytes and shares.
    [[nodiscard]] std::string text(std::size_t batch) const;

private:
    [[nodiscard]] static bool fits_in(std::size_t available, std::size_t bytes) noexcept;
    [[nodiscard]] static std::size_t checked(std::size_t granularity, source_location where);
    template <class Bytes>
    [[nodiscard]] std::size_t sum(Bytes bytes_of) const noexcept {
        std::optional<std::size_t> total = 0;
        for (part const& p : parts_)
            if (total) total = checked_add(*total, bytes_of(p));
        return total.value_or(unlimited);
    }
    [[nodiscard]] std::size_t no_batch(source_location where) const;
    // Every sum of parts is a multiple of it.
    [[nodiscard]] std::size_t smallest_granularity() const noexcept;
    // Returns the `most` largest parts, descending.
    [[nodiscard]] std::vector<part> largest(std::size_t most, std::size_t batch) const;
    [[nodiscard]] std::string cause(std::size_t batch, batch_fit const& fit) const;

    std::vector<part> parts_;
    std::size_t granularity_ = device_memory::granularity();
    std::size_t page_ = 1;  // the sum is rounded up to it
};

namespace detail {

[[nodiscard]] inline std::string tag_text(tag name) { return name.is_empty() ? "untagged" : name.text(); }

/// "2 x 1'000'000 floats per sample"
[[nodiscard]] std::string shape_text(footprint::part const& p);

[[nodiscard]] std::string rest_text(char const* joint, std::size_t parts);

[[nodiscard]] std::string share_text(std::size_t part, std::size_t total);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <cstdio>

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t footprint::part::bytes(std::size_t batch) const noexcept {
    return total(batch, std::max(granularity, std::size_t{1}));
}

CUOTA_INLINE bool footprint::part::depends_on_batch() const noexcept {
    return per_sample && count != 0 && unit_bytes != 0 && copies != 0;
}

CUOTA_INLINE std::size_t footprint::part::total(std::size_t batch, std::size_t rounding) const noexcept {
    if (copies == 0 || unit_bytes == 0) return 0;
    auto bytes = checked_mul(count, per_sample ? batch : 1);
    if (bytes) bytes = checked_mul(*bytes, unit_bytes);
    if (bytes) bytes = checked_round_up(*bytes, rounding);
    if (bytes) bytes = checked_mul(*bytes, copies);
    return bytes.value_or(unlimited);
}

CUOTA_INLINE footprint footprint::with_granularity(std::size_t granularity, source_location where) {
    footprint plan;
    plan.granularity_ = checked(granularity, where);
    return plan;
}

CUOTA_INLINE footprint footprint::with_pages(std::size_t granularity, std::size_t page_bytes,
                                             source_location where) {
    footprint plan = with_granularity(granularity, where);
    plan.page_ = checked(page_bytes, where);
    return plan;
}

CUOTA_INLINE footprint& footprint::add(part p) {
    p.granularity = p.granularity == 0 ? granularity_ : checked(p.granularity, p.where);
    parts_.push_back(p);
    return *this;
}

CUOTA_INLINE footprint& footprint::add(footprint const& other) {
    std::vector<part> parts = other.parts_;
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    page_ = std::max(page_, other.page_);
    return *this;
}

CUOTA_INLINE bool footprint::depends_on_batch() const noexcept {
    for (part const& p : parts_)
        if (p.depends_on_batch()) return true;
    return false;
}

CUOTA_INLINE std::size_t footprint::bytes(std::size_t batch) const noexcept {
    return round_up(sum([&](part const& p) { return p.bytes(batch); }), page_);
}

CUOTA_INLINE bool footprint::fits(budget const& b, std::size_t batch) const noexcept {
    return fits_in(b.available(), bytes(batch));
}

CUOTA_INLINE reservation footprint::reserve(budget b, std::size_t batch, source_location where) const {
    std::size_t const cost = bytes(batch);
    if (cost == unlimited) check(b, batch, where);  // `unlimited` would accept it
    return b.reserve(cost, "plan", where);
}

CUOTA_INLINE bool footprint::fits(budget const& b, source_location where) const {
    return fits(b, no_batch(where));
}

CUOTA_INLINE reservation footprint::reserve(budget b, source_location where) const {
    return reserve(std::move(b), no_batch(where), where);
}

CUOTA_INLINE batch_fit footprint::largest_batch(budget const& b) const noexcept {
    return largest_batch_in(b.available());
}

CUOTA_INLINE batch_fit footprint::largest_batch_in(std::size_t available) const noexcept {
    if (!fits_in(available, bytes(0))) return {0, bytes(0), 1, bytes(1), available};
    if (!depends_on_batch()) return {unlimited, bytes(0), 0, 0, available};
    // bytes() is monotonic, and `unlimited` samples of one byte or more never fit.
    std::size_t fitting = 0;
    std::size_t too_large = unlimited;
    while (too_large - fitting > 1) {
        std::size_t const middle = fitting + (too_large - fitting) / 2;
        (fits_in(available, bytes(middle)) ? fitting : too_large) = middle;
    }
    return {fitting, bytes(fitting), too_large, bytes(too_large), available};
}

CUOTA_INLINE bool footprint::fits_in(std::size_t available, std::size_t bytes) noexcept {
    return bytes != unlimited && bytes <= available;
}

CUOTA_INLINE std::size_t footprint::checked(std::size_t granularity, source_location where) {
    if (is_power_of_two(granularity)) return granularity;
    detail::throw_usage_error(where, "footprint: a granularity of {} is not a power of two",
                              {detail::as_bytes(granularity)});
}

CUOTA_INLINE std::size_t footprint::no_batch(source_location where) const {
    if (depends_on_batch())
        detail::throw_usage_error(where, "footprint: parts grow with the batch; pass a batch size");
    return 0;
}

CUOTA_INLINE std::size_t footprint::smallest_granularity() const noexcept {
    std::size_t least = parts_.empty() ? granularity_ : parts_.front().granularity;
    for (part const& p : parts_) least = std::min(least, p.granularity);
    return std::max(least, page_);
}

CUOTA_INLINE auto footprint::largest(std::size_t most, std::size_t batch) const -> std::vector<part> {
    std::vector<part> found;
    for (part const& p : parts_) {
        found.push_back(p);
        for (std::size_t i = found.size() - 1; i != 0 && found[i - 1].bytes(batch) < p.bytes(batch); --i)
            std::swap(found[i - 1], found[i]);
        if (found.size() > most) found.pop_back();
    }
    return found;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string shape_text(footprint::part const& p) {
    return message("{}{} {}{}{}",
                   {p.copies == 1 ? "" : count_text(p.copies) + " x ", as_count(p.count),
                    unit_of(p.count, p.unit),
                    std::string_view{p.unit} == "elements" ? " of " + bytes_text(p.unit_bytes) : "",
                    p.per_sample ? " per sample" : ""});
}

CUOTA_INLINE std::string rest_text(char const* joint, std::size_t parts) {
    return parts == 0 ? "" : joint + count_text(parts) + " more";
}

CUOTA_INLINE std::string share_text(std::size_t part, std::size_t total) {
    double const share = total == 0 ? 0 : static_cast<double>(part) / static_cast<double>(total);
    char text[16];
    std::snprintf(text, sizeof text, "%5.1f %%", 100 * share);
    return text;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string footprint::text(std::size_t batch) const {
    std::vector<part> const shown = largest(16, batch);
    std::size_t const total = bytes(batch);
    std::size_t width = 0;
    for (part const& p : shown)
        width = std::min(std::max(width, detail::tag_text(p.name).size() + 3), std::size_t{40});
    std::string text =
        detail::message("footprint{}: {}", {depends_on_batch() ? " at a batch of " + count_text(batch) : "",
                                            detail::planned_text(total)});
    for (part const& p : shown)
        detail::append_message(text, "\n  {}{}{}{}",
                               {detail::padded(detail::tag_text(p.name), width),
                                detail::padded(detail::planned_text(p.bytes(batch)), 12),
                                detail::padded(detail::share_text(p.bytes(batch), total), 10),
                                detail::shape_text(p)});
    return text + detail::rest_text("\n  and ", parts_.size() - shown.size());
}

// A line of a refusal has about 98 columns.
CUOTA_INLINE std::string footprint::cause(std::size_t batch, batch_fit const& fit) const {
    std::vector<part> const shown = largest(2, batch);
    std::string text;
    for (part const& p : shown)
        detail::append_message(
            text, "{}{} {}",
            {text.empty() ? "" : " + ", detail::tag_text(p.name), detail::planned_text(p.bytes(batch))});
    text += detail::rest_text(" + ", parts_.size() - shown.size());
    if (!depends_on_batch()) return text;
    detail::append_message(text, " at a batch of {}", {detail::as_count(batch)});
    if (!fit.fixed_part_fits()) return text + "; the fixed part alone does not fit";
    if (fit.batch == 0) return text + "; not even a batch of 1 fits";
    return detail::message("{}; the largest batch that fits is {}", {text, detail::as_count(fit.batch)});
}

CUOTA_INLINE void footprint::check(budget const& b, std::size_t batch, source_location where) const {
    std::size_t const cost = bytes(batch);
    if (fits_in(b.available(), cost)) return;
    std::size_t const requested = sum([&](part const& p) { return p.requested(batch); });
    refusal r = detail::facts_of(detail::budget_access::node(b), cost,
                                 {requested, smallest_granularity(), label{"plan", where}, std::nullopt});
    r.reclaimers.reset();                                 // no holder was asked
    if (cost != unlimited && r.shortfall() == 0) return;  // memory was released meanwhile
    std::size_t available = unlimited;
    for (budget_info const& at : r.budgets) available = std::min(available, at.free());
    r.cause = cause(batch, largest_batch_in(available));
    throw budget_exceeded{std::move(r)};
}

}  // namespace cuota::inline v0

#endif
