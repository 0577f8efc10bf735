// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Assignment of layers to the devices of a pipeline.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/training/detail/partition_search.hpp>

namespace cuota::inline v0 {

/// One layer, or several that must stay together.
struct placed_layer {
    tag name{};                         ///< for messages
    std::size_t bytes = 0;              ///< fixed: weights, gradients, optimizer state
    std::size_t micro_batch_bytes = 0;  ///< between forward and backward
    double time = 1;                    ///< of a micro-batch at speed 1, in any unit
};

/// A device of the pipeline.
struct placement_device {
    tag name{};                            ///< for messages
    std::size_t memory_limit = unlimited;  ///< in bytes
    double speed = 1;                      ///< divisor of times

    /// Returns a device with the name of a budget and its available bytes.
    [[nodiscard]] static placement_device of(budget const& b, double speed = 1);
};

/// Quantity to minimize.
enum class placement_balance {
    time,   ///< time()
    memory  ///< bytes()
};

/// Options of place_layers.
struct placement_options {
    /// Quantity to minimize.
    placement_balance balance = placement_balance::time;
    /// Micro-batches per step. A device keeps at most max_in_flight of them.
    std::size_t micro_batches = 1;
};

/// Layers on devices, in pipeline order.
struct placement {
    /// One device's layers: [first, first + count).
    struct assignment {
        placement_device on{};  ///< as passed to place_layers
        std::size_t first = 0;  ///< its first layer
        std::size_t count = 0;  ///< 0: the device is not used
        std::size_t live = 0;   ///< micro-batches kept at once
        std::size_t bytes = 0;  ///< including those micro-batches
        double time = 0;        ///< of one micro-batch
    };
    std::vector<assignment> assignments{};  ///< by device

    [[nodiscard]] double time() const noexcept;         ///< of the slowest device, for one micro-batch
    [[nodiscard]] std::size_t bytes() const noexcept;   ///< of the fullest device
    [[nodiscard]] std::size_t layers() const noexcept;  ///< number of layers
    [[nodiscard]] std::size_t devices_in_use() const noexcept;  ///< number of devices that have a layer
    [[nodiscard]] std::vector<std::size_t> boundaries() const;  ///< first layer of each device in use
    /// Returns the number of a layer's device. Throws: usage_error if the layer does not exist.
    [[nodiscard]] std::size_t device_of(std::size_t layer,
                                        source_location where = source_location::current()) const;
    /// Returns the totals, and one line per device.
    [[nodiscard]] std::string text() const;
};

/// No placement satisfies all memory limits. facts() describes the one with the smallest total shortfall, by its device with the largest.
class CUOTA_PROCESS_TYPE placement_error final : public out_of_memory {
public:
    /// Throws: std::bad_alloc.
    placement_error(refusal facts, std::size_t missing, std::size_t device, std::size_t device_shortfall);

    /// Returns the smallest total shortfall in bytes; `unlimited` on overflow.
    [[nodiscard]] std::size_t shortfall() const noexcept { return missing_; }
    [[nodiscard]] std::size_t device() const noexcept { return device_; }  ///< with the largest shortfall
    [[nodiscard]] std::size_t device_shortfall() const noexcept { return missing_there_; }  ///< in bytes

private:
    std::size_t missing_;
    std::size_t device_;
    std::size_t missing_there_;
};

namespace detail {

/// Sums over a run of layers.
struct layer_run {
    std::size_t bytes = 0;
    std::size_t each = 0;
    double time = 0;

    void add(placed_layer const& l) noexcept;
    [[nodiscard]] std::size_t bytes_of(std::size_t live) const noexcept;
};

[[nodiscard]] std::string device_text(placement_device const& d, std::size_t number);

[[nodiscard]] std::string layers_text(std::size_t first, std::size_t count);

class layer_partition {
public:
    layer_partition(std::vector<placed_layer> const& layers, std::vector<placement_device> const& devices,
                    placement_options const& how, source_location where);

    [[nodiscard]] placement run() const;

private:
    void check() const;
    [[noreturn]] void refuse(std::string const& why) const {
        throw_usage_error(where_, "place_layers: {}", {why});
    }

    [[nodiscard]] bool fits(std::size_t d, layer_run const& r, std::size_t live) const noexcept;
    [[nodiscard]] std::size_t live_before(std::size_t after) const noexcept;

    template <class Cost, class Join, class CostOf>
    [[nodiscard]] auto search(Join join, CostOf cost_of) const {
        auto const costs = [this, cost_of](std::size_t d, std::size_t, std::size_t after) {
            return [this, cost_of, d, live = live_before(after), r = layer_run{}](std::size_t last) mutable {
                r.add(layers_[last]);
                return cost_of(d, r, live);
            };
        };
        return partition_search<Cost, decltype(costs), Join>{layers_.size(), devices_.size(), costs, join};
    }
    template <class Cost, class Join, class CostOf>
    [[nodiscard]] placement best(Join join, CostOf cost_of) const {
        auto const found = search<Cost>(join, cost_of);
        if (!(found.least() < no_way<Cost>)) refuse_for_room();
        return placed(found.cuts());
    }

    [[nodiscard]] placement placed(layer_cuts const& cuts) const;

    [[noreturn]] void refuse_for_room() const;
    [[nodiscard]] static std::size_t lacks(std::size_t bytes, std::size_t memory_limit) noexcept;
    [[nodiscard]] static std::size_t lacks(placement::assignment const& s) noexcept;
    [[nodiscard]] static std::string missing_text(std::size_t bytes);
    [[nodiscard]] refusal facts_of(placement const& nearest, std::size_t worst, std::size_t missing) const;

    std::vector<placed_layer> const& layers_;
    std::vector<placement_device> const& devices_;
    placement_options how_;
    source_location where_;
};

[[nodiscard]] std::string time_text(double time);

}  // namespace detail

/// Assigns each device a run of consecutive layers, possibly none, within its memory_limit, so that the slowest device is as fast as
/// possible (or the fullest as empty). Exact: dynamic programming, as PipeDream's (Narayanan et al., SOSP 2019) without replicas. Among
/// several optimal placements, returns the one with the fewest devices in use, then the most layers on the first device, on the second, and
/// so on.
/// Units:   bytes; times in the unit of the layers.
/// Threads: any.
/// Throws:  placement_error (an out_of_memory) if no placement fits; usage_error for an invalid time or speed, no devices, or no
///          micro-batches; std::bad_alloc.
/// Cost:    at most D^2 L^2 / 2 steps for L layers on D devices.
/// Example:
///     using cuota::placement_device;
///     auto const where = place_layers(layers, {placement_device::of(gpu0), placement_device::of(gpu1)});
[[nodiscard]] placement place_layers(std::vector<placed_layer> const& layers,
                                     std::vector<placement_device> const& devices,
                                     placement_options const& how = {},
                                     source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE placement_device placement_device::of(budget const& b, double speed) {
    placement_device d;
    d.name = tag::named(b.name());
    d.memory_limit = b.available();
    d.speed = speed;
    return d;
}

CUOTA_INLINE double placement::time() const noexcept {
    double most = 0;
    for (assignment const& s : assignments) most = std::max(most, s.time);
    return most;
}

CUOTA_INLINE std::size_t placement::bytes() const noexcept {
    std::size_t most = 0;
    for (assignment const& s : assignments) most = std::max(most, s.bytes);
    return most;
}

CUOTA_INLINE std::size_t placement::layers() const noexcept {
    std::size_t sum = 0;
    for (assignment const& s : assignments) sum += s.count;
    return sum;
}

CUOTA_INLINE std::size_t placement::devices_in_use() const noexcept {
    std::size_t sum = 0;
    for (assignment const& s : assignments) sum += s.count != 0;
    return sum;
}

CUOTA_INLINE std::vector<std::size_t> placement::boundaries() const {
    std::vector<std::size_t> first;
    for (assignment const& s : assignments)
        if (s.count != 0) first.push_back(s.first);
    return first;
}

CUOTA_INLINE std::size_t placement::device_of(std::size_t layer, source_location where) const {
    for (std::size_t d = 0; d != assignments.size(); ++d)
        if (layer >= assignments[d].first && layer - assignments[d].first < assignments[d].count) return d;
    detail::throw_usage_error(where, "placement: layer {} is out of range: the number of layers is {}",
                              {detail::as_count(layer), detail::as_count(layers())});
}

CUOTA_INLINE placement_error::placement_error(refusal facts, std::size_t missing, std::size_t device,
                                              std::size_t device_shortfall)
    : out_of_memory{"placement_error",
                    "cuota::placement_error: out of memory; the details do not fit in host memory",
                    std::move(facts)},
      missing_{missing},
      device_{device},
      missing_there_{device_shortfall} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void layer_run::add(placed_layer const& l) noexcept {
    bytes = saturating_add(bytes, l.bytes);
    each = saturating_add(each, l.micro_batch_bytes);
    time += l.time;
}

CUOTA_INLINE std::size_t layer_run::bytes_of(std::size_t live) const noexcept {
    return saturating_add(bytes, checked_mul(each, live).value_or(unlimited));
}

CUOTA_INLINE std::string device_text(placement_device const& d, std::size_t number) {
    return d.name.is_empty() ? "device " + count_text(number) : std::string{d.name.text()};
}

CUOTA_INLINE std::string layers_text(std::size_t first, std::size_t count) {
    if (count == 0) return "no layer";
    if (count == 1) return "layer " + count_text(first);
    return message("layers {} to {}", {as_count(first), as_count(first + count - 1)});
}

CUOTA_INLINE layer_partition::layer_partition(std::vector<placed_layer> const& layers,
                                              std::vector<placement_device> const& devices,
                                              placement_options const& how, source_location where)
    : layers_{layers}, devices_{devices}, how_{how}, where_{where} {
    check();
}

CUOTA_INLINE placement layer_partition::run() const {
    auto const larger = [](auto a, auto b) { return std::max(a, b); };
    if (how_.balance == placement_balance::time)
        return best<double>(larger, [this](std::size_t d, layer_run const& r, std::size_t live) {
            return fits(d, r, live) ? r.time / devices_[d].speed : no_way<double>;
        });
    return best<std::size_t>(larger, [this](std::size_t d, layer_run const& r, std::size_t live) {
        return fits(d, r, live) ? r.bytes_of(live) : unlimited;
    });
}

CUOTA_INLINE void layer_partition::check() const {
    double sum = 0;
    for (placed_layer const& l : layers_) {
        if (!(l.time >= 0)) refuse("the time of a layer must not be negative: " + std::to_string(l.time));
        sum += l.time;
    }
    for (placement_device const& d : devices_)
        if (!(d.speed > 0) || !std::isfinite(d.speed) || !std::isfinite(sum / d.speed))
            refuse("speed = " + std::to_string(d.speed) + " is not valid for layers with a total time of " +
                   std::to_string(sum));
    if (devices_.empty()) refuse("no devices");
    if (how_.micro_batches == 0) refuse("the number of micro-batches must be at least 1");
}

CUOTA_INLINE bool layer_partition::fits(std::size_t d, layer_run const& r, std::size_t live) const noexcept {
    std::size_t const bytes = r.bytes_of(live);
    return bytes != unlimited && bytes <= devices_[d].memory_limit;
}

CUOTA_INLINE std::size_t layer_partition::live_before(std::size_t after) const noexcept {
    return std::min(how_.micro_batches, after + 1);
}

CUOTA_INLINE placement layer_partition::placed(layer_cuts const& cuts) const {
    placement p;
    std::size_t after = 0;
    for (std::size_t d = devices_.size(); d-- != 0;) {
        placement::assignment s;
        s.on = devices_[d];
        s.first = cuts[d];
        s.count = cuts[d + 1] - cuts[d];
        layer_run r;
        for (std::size_t i = cuts[d]; i != cuts[d + 1]; ++i) r.add(layers_[i]);
        if (s.count != 0) s.live = live_before(after++);
        s.bytes = r.bytes_of(s.live);
        s.time = r.time / s.on.speed;
        p.assignments.insert(p.assignments.begin(), s);
    }
    return p;
}

CUOTA_INLINE void layer_partition::refuse_for_room() const {
    auto const missing = [this](std::size_t d, layer_run const& r, std::size_t live) {
        return lacks(r.bytes_of(live), devices_[d].memory_limit);
    };
    auto const found =
        search<std::size_t>([](std::size_t a, std::size_t b) { return saturating_add(a, b); }, missing);
    layer_cuts all_first(devices_.size() + 1,
                         layers_.size());  // arbitrary on overflow
    all_first.front() = 0;
    placement const nearest = placed(found.least() == unlimited ? all_first : found.cuts());
    std::size_t worst = 0;
    for (std::size_t d = 0; d != nearest.assignments.size(); ++d)
        if (lacks(nearest.assignments[d]) > lacks(nearest.assignments[worst])) worst = d;
    throw placement_error{facts_of(nearest, worst, found.least()), found.least(), worst,
                          lacks(nearest.assignments[worst])};
}

CUOTA_INLINE std::size_t layer_partition::lacks(std::size_t bytes, std::size_t memory_limit) noexcept {
    return bytes == unlimited ? unlimited : bytes - std::min(bytes, memory_limit);
}

CUOTA_INLINE std::size_t layer_partition::lacks(placement::assignment const& s) noexcept {
    return lacks(s.bytes, s.on.memory_limit);
}

CUOTA_INLINE std::string layer_partition::missing_text(std::size_t bytes) {
    return bytes == unlimited ? "16 EiB or more" : bytes_text(bytes);
}

CUOTA_INLINE refusal layer_partition::facts_of(placement const& nearest, std::size_t worst,
                                               std::size_t missing) const {
    placement::assignment const& s = nearest.assignments[worst];
    refusal r;
    r.requested = r.charged = s.bytes;
    r.request = label{"layers", where_};
    r.max_fit = s.on.memory_limit;
    r.cause = count_text(layers_.size()) + " layers do not fit on " + count_text(devices_.size()) +
              " devices: at least " + missing_text(missing) + " short, " + missing_text(lacks(s)) +
              " of it on " + device_text(s.on, worst) + " (" + layers_text(s.first, s.count) + ')';
    return r;
}

CUOTA_INLINE std::string time_text(double time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", time);
    return text;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string placement::text() const {
    std::string text = detail::message("{} layers on {} of {} devices: time {}, at most {} on one",
                                       {detail::as_count(layers()), detail::as_count(devices_in_use()),
                                        detail::as_count(assignments.size()), detail::time_text(time()),
                                        detail::as_bytes(bytes())});
    std::size_t width = 0;
    for (std::size_t d = 0; d != assignments.size(); ++d)
        width = std::max(width, detail::device_text(assignments[d].on, d).size() + 3);
    for (std::size_t d = 0; d != assignments.size(); ++d) {
        assignment const& s = assignments[d];
        text += "\n  " + detail::padded(detail::device_text(s.on, d), std::min(width, std::size_t{40})) +
                detail::padded(detail::layers_text(s.first, s.count), 22) +
                detail::padded(bytes_text(s.bytes) + " of " +
                                   (s.on.memory_limit == unlimited ? "any" : bytes_text(s.on.memory_limit)),
                               26) +
                "time " + detail::time_text(s.time);
    }
    return text;
}

CUOTA_INLINE placement place_layers(std::vector<placed_layer> const& layers,
                                    std::vector<placement_device> const& devices,
                                    placement_options const& how, source_location where) {
    return detail::layer_partition{layers, devices, how, where}.run();
}

}  // namespace cuota::inline v0

#endif
