// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/distributed/placement.hpp>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::place_layers;
using cuota::placed_layer;
using cuota::placement;
using cuota::placement_balance;
using cuota::placement_device;
using cuota::placement_error;
using cuota::placement_options;

namespace {

struct placing_case {
    std::vector<placed_layer> layers;
    std::vector<placement_device> devices;
    placement_options how;
};

[[nodiscard]] placing_case any_placing(std::mt19937& random) {
    placing_case c;
    c.layers.resize(random() % 8);
    for (placed_layer& l : c.layers) {
        l.bytes = random() % 12;
        l.micro_batch_bytes = random() % 4;
        l.time = static_cast<double>(random() % 9) * (random() % 2 ? 1.0 : 0.1);
    }
    c.devices.resize(1 + random() % 4);
    bool const is_alike = random() % 2 != 0;
    for (placement_device& d : c.devices) {
        d.memory_limit = is_alike ? 25 : random() % 50;
        d.speed = is_alike ? 1 : std::vector<double>{0.5, 1, 3}[random() % 3];
    }
    c.how.balance = random() % 2 ? placement_balance::time : placement_balance::memory;
    c.how.micro_batches = 1 + random() % 5;
    return c;
}

// A set of cuts and its cost, by definition, without a table.
struct tried_cut {
    std::vector<std::size_t> cuts;
    std::size_t used = 0;
    double cost = 0;
    std::size_t missing = 0;
};

[[nodiscard]] tried_cut cost_of(placing_case const& c, std::vector<std::size_t> const& cuts) {
    tried_cut t{cuts};
    std::size_t stages_after = 0;
    for (std::size_t d = c.devices.size(); d-- != 0;) {
        if (cuts[d] == cuts[d + 1]) continue;
        std::size_t const live =
            stages_after + 1 < c.how.micro_batches ? stages_after + 1 : c.how.micro_batches;
        ++stages_after;
        std::size_t bytes = 0;
        double time = 0;
        for (std::size_t i = cuts[d]; i != cuts[d + 1]; ++i) {
            bytes += c.layers[i].bytes + live * c.layers[i].micro_batch_bytes;
            time += c.layers[i].time;
        }
        if (bytes > c.devices[d].memory_limit) t.missing += bytes - c.devices[d].memory_limit;
        double const cost =
            c.how.balance == placement_balance::time ? time / c.devices[d].speed : static_cast<double>(bytes);
        if (cost > t.cost) t.cost = cost;
    }
    t.used = stages_after;
    return t;
}

template <class Seen>
void for_every_cut(placing_case const& c, std::vector<std::size_t>& cuts, Seen const& seen) {
    if (cuts.size() == c.devices.size()) {
        cuts.push_back(c.layers.size());
        seen(cost_of(c, cuts));
        cuts.pop_back();
        return;
    }
    for (std::size_t next = cuts.back(); next <= c.layers.size(); ++next) {
        cuts.push_back(next);
        for_every_cut(c, cuts, seen);
        cuts.pop_back();
    }
}

[[nodiscard]] bool is_better(tried_cut const& a, tried_cut const& b) {
    if (a.cost != b.cost) return a.cost < b.cost;
    if (a.used != b.used) return a.used < b.used;
    return a.cuts > b.cuts;
}

[[nodiscard]] double objective_of(placement const& p, placement_balance by) {
    return by == placement_balance::time ? p.time() : static_cast<double>(p.bytes());
}

}  // namespace

TEST_CASE("a placement is the best of all cuts, and is refused only if none fits", "[training][placement]") {
    std::mt19937 random{26};
    std::size_t wrong = 0;
    std::size_t refused = 0;
    std::size_t skipping = 0;
    for (int round = 0; round != 6000; ++round) {
        placing_case const c = any_placing(random);
        tried_cut best;
        best.cost = std::numeric_limits<double>::infinity();
        std::size_t missing = cuota::unlimited;
        std::vector<std::size_t> cuts{0};
        for_every_cut(c, cuts, [&](tried_cut const& t) {
            if (t.missing < missing) missing = t.missing;
            if (t.missing == 0 && is_better(t, best)) best = t;
        });
        try {
            placement const p = place_layers(c.layers, c.devices, c.how);
            std::vector<std::size_t> got;
            for (placement::assignment const& s : p.assignments) got.push_back(s.first);
            got.push_back(c.layers.size());
            bool const is_right = missing == 0 && got == best.cuts && p.devices_in_use() == best.used &&
                                  objective_of(p, c.how.balance) == best.cost &&
                                  p.layers() == c.layers.size();
            wrong += !is_right;
            for (std::size_t d = 0; d + 1 < p.assignments.size(); ++d)
                skipping += p.assignments[d].count == 0 && p.assignments[d + 1].count != 0;
        } catch (placement_error const& r) {
            ++refused;
            placing_case one = c;  // fits only if that device lacks all missing bytes
            one.devices[r.device()].memory_limit += r.info().shortfall();
            wrong += missing == 0 || r.shortfall() != missing || r.device_shortfall() == 0 ||
                     r.device_shortfall() > missing;
        }
    }
    CHECK(wrong == 0);
    CHECK(refused > 1000);
    CHECK(refused < 5000);
    CHECK(skipping > 100);
}

TEST_CASE("a placement fits with the reported shortfall added, and does not fit with one byte less",
          "[training][placement]") {
    std::mt19937 random{7};
    std::size_t refused = 0;
    std::size_t wrong = 0;
    for (int round = 0; round != 3000; ++round) {
        placing_case c = any_placing(random);
        try {
            (void)place_layers(c.layers, c.devices, c.how);
        } catch (placement_error const& r) {
            // Some distribution of the missing bytes over the devices makes the placement fit; with one byte less, none does.
            auto const fits_with = [&](std::size_t more) {
                for (std::size_t here = 0; here <= more; ++here)
                    for (std::size_t d = 0; d != c.devices.size(); ++d)
                        for (std::size_t e = 0; e != c.devices.size(); ++e) {
                            placing_case wider = c;
                            wider.devices[d].memory_limit += here;
                            wider.devices[e].memory_limit += more - here;
                            try {
                                (void)place_layers(wider.layers, wider.devices, wider.how);
                                return true;
                            } catch (placement_error const&) {}
                        }
                return false;
            };
            if (c.devices.size() > 2) continue;  // fits_with adds to two devices only
            ++refused;
            wrong += !fits_with(r.shortfall()) || fits_with(r.shortfall() - 1);
        }
    }
    CHECK(refused > 300);
    CHECK(wrong == 0);
}

TEST_CASE("higher memory limits never make a placement worse", "[training][placement]") {
    std::mt19937 random{11};
    std::size_t worse = 0;
    std::size_t placed = 0;
    for (int round = 0; round != 3000; ++round) {
        placing_case c = any_placing(random);
        double before = std::numeric_limits<double>::infinity();
        for (int more = 0; more != 6; ++more) {
            try {
                double const now = objective_of(place_layers(c.layers, c.devices, c.how), c.how.balance);
                worse += now > before;
                before = now;
                ++placed;
            } catch (placement_error const&) { worse += before != std::numeric_limits<double>::infinity(); }
            c.devices[random() % c.devices.size()].memory_limit += random() % 20;
        }
    }
    CHECK(worse == 0);
    CHECK(placed > 5000);
}

TEST_CASE("a placement reports its cuts, the device of each layer, and a short summary",
          "[training][placement]") {
    std::vector<placed_layer> const layers{
        {"conv", 2_MiB, 0, 3}, {"conv", 2_MiB, 1_MiB, 3}, {"fc", 1_MiB, 0, 2}, {"fc", 1_MiB, 0, 2}};
    std::vector<placement_device> const devices{{"big", 8_MiB}, {"tiny", 10}, {{}, cuota::unlimited, 2}};
    placement const p = place_layers(layers, devices, {.micro_batches = 4});
    CHECK(p.boundaries() == std::vector<std::size_t>{0, 1});
    CHECK(p.time() == 3.5);
    CHECK(p.bytes() == 5_MiB);
    CHECK(p.devices_in_use() == 2);
    CHECK(p.device_of(0) == 0);
    CHECK(p.device_of(1) == 2);
    CHECK(p.device_of(3) == 2);
    CHECK_THROWS_AS((void)p.device_of(4), cuota::usage_error);
    CHECK(p.text() == "4 layers on 2 of 3 devices: time 3.5, at most 5.0 MiB on one\n"
                      "  big        layer 0               2.0 MiB of 8.0 MiB        time 3\n"
                      "  tiny       no layer              0 B of 10 B               time 0\n"
                      "  device 2   layers 1 to 3         5.0 MiB of any            time 3.5");
}

TEST_CASE("the first device of a pipeline keeps the most micro-batches", "[training][placement]") {
    std::vector<placed_layer> const layers(3, {{}, 100, 10, 1});
    std::vector<placement_device> const devices(3, placement_device{{}, 130, 1});
    placement const p = place_layers(layers, devices, {.micro_batches = 8});
    CHECK(p.assignments[0].live == 3);
    CHECK(p.assignments[0].bytes == 130);
    CHECK(p.assignments[2].live == 1);
    CHECK(p.assignments[2].bytes == 110);
    std::vector<placement_device> const smaller(3, placement_device{{}, 129, 1});
    CHECK(support::thrown<placement_error>([&] {
              (void)place_layers(layers, smaller, {.micro_batches = 8});
          }).shortfall() == 1);
    CHECK_NOTHROW((void)place_layers(layers, smaller, {.micro_batches = 2}));
}

TEST_CASE("a refused placement reports the shortfall and its device", "[training][placement]") {
    std::vector<placed_layer> const layers{{"a", 3_MiB}, {"b", 6_MiB}};
    std::vector<placement_device> const devices{{"gpu 0", 2_MiB}, {"gpu 1", 4_MiB}};
    auto const refused = support::thrown<cuota::out_of_memory>([&] { (void)place_layers(layers, devices); });
    CHECK(support::has(refused.what(),
                       "placement_error: cannot allocate 6.0 MiB for layers at placement.cpp:"));
    CHECK(support::has(refused.what(), "cause      2 layers do not fit on 2 devices: at least 3.0 MiB short, "
                                       "2.0 MiB of it on gpu 1 (layer 1)\n"));
    auto const typed = support::thrown<placement_error>([&] { (void)place_layers(layers, devices); });
    CHECK(typed.shortfall() == 3_MiB);
    CHECK(typed.device() == 1);
    CHECK(typed.device_shortfall() == 2_MiB);
    CHECK(typed.info().charged == 6_MiB);
}

TEST_CASE("layers whose sizes overflow are not placed", "[training][placement]") {
    std::vector<placed_layer> const layers{{"a", cuota::unlimited}, {"b", 1}};
    auto const refused = support::thrown<placement_error>([&] { (void)place_layers(layers, {{}, {}}); });
    CHECK(refused.shortfall() == cuota::unlimited);
    CHECK(refused.device_shortfall() == cuota::unlimited);
    CHECK(refused.device() == 0);
    std::vector<placed_layer> const many(2, {"a", 1, cuota::unlimited / 2});
    CHECK_THROWS_AS((void)place_layers(many, {{"x", cuota::unlimited}, {"y", 0}}, {.micro_batches = 3}),
                    placement_error);
}

TEST_CASE("the memory limit of a placement device is the available bytes of its budget",
          "[training][placement]") {
    cuota::budget gpu{"gpu", 1_MiB};
    cuota::reservation const taken = gpu.reserve(1000);
    placement_device const d = placement_device::of(gpu, 2);
    CHECK(d.memory_limit == 1_MiB - 1000);
    CHECK(std::string{d.name.text()} == "gpu");
    CHECK(d.speed == 2);
}

TEST_CASE("invalid devices, micro-batches, times and speeds are refused", "[training][placement]") {
    double const nothing = std::numeric_limits<double>::quiet_NaN();
    double const endless = std::numeric_limits<double>::infinity();
    using cuota::usage_error;
    CHECK_THROWS_AS((void)place_layers({{}}, {}), usage_error);
    CHECK_THROWS_AS((void)place_layers({{}}, {{}}, {.micro_batches = 0}), usage_error);
    for (double const time : {-1.0, nothing, endless})
        CHECK_THROWS_AS((void)place_layers({{{}, 0, 0, time}}, {{}}), usage_error);
    for (double const speed : {0.0, -1.0, nothing, endless, 1e-308})
        CHECK_THROWS_AS((void)place_layers({{{}, 0, 0, 1e300}}, {{{}, 0, speed}}), usage_error);
    CHECK(place_layers({}, {{}, {}}).devices_in_use() == 0);
}
