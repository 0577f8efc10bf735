// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random programs of buffers, leases, streams, moves and releases beside a sequential model. The order that the library enqueues must
// suffice, and omitting any of its waits must be detected.
#include <cuota/buffer/device_buffer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/order_trace.hpp"
#include "support/rounds.hpp"
#include "support/sanitizer.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

// Computes y[i] = y[i] * factor + x[i]; x may be y.
struct combine {
    word* to;
    word const* from;
    word factor;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = to[i] * factor + from[i]; }
};

class program {
public:
    program(cuota::scoped_pool& pool, support::order_trace& trace, std::uint64_t seed)
        : pool_{pool}, trace_{trace}, draw_{seed} {}

    void run(std::size_t steps) {
        for (std::size_t i = 0; i != steps; ++i) step();
        while (!open_.empty()) end_lease();
    }
    // Call after the device has finished.
    [[nodiscard]] bool has_right_results() {
        cuota::stream const s;
        for (slot const& x : slots_)
            if (x.buffer && x.buffer->to_vector(s) != x.model) return false;
        return wrong_ == 0;
    }

private:
    static constexpr std::size_t streams = 4;

    struct slot {
        std::optional<cuota::device_buffer<word>> buffer;
        std::vector<word> model;
    };
    // A lease on stream `on` of the buffer in slot `of`. While it is open, the buffer stays there, or a move updates `of`.
    struct open_lease {
        std::variant<cuota::lease<word>, cuota::lease<word const>> lease;
        std::size_t of;
        std::size_t on;

        [[nodiscard]] bool writes() const { return lease.index() == 0; }
    };

    void step() {
        switch (draw(14)) {
            case 0:
            case 1: return make();
            case 2:
            case 3:
            case 4: return change();
            case 5:
            case 6:
            case 7: return add();
            case 8: return begin_lease();
            case 9: return use_lease();
            case 10: return open_.empty() ? release() : end_lease();
            case 11: return move();
            case 12: return draw(2) == 0 ? clone() : resize();
            case 13: return draw(4) == 0 ? look() : draw(2) == 0 ? replace_stream() : release();
            default: std::abort();
        }
    }

    // --- operations of programs ---

    void make() {
        slot& x = slots_[draw(slots_.size())];
        if (is_leased(x)) return;
        std::size_t const count = 16 + 16 * draw(8);
        cuota::stream const& home = streams_[draw(streams)];
        word const value = next();
        x.buffer.emplace(count, home, pool_, cuota::no_init);
        x.model.assign(count, value);
        auto const all = x.buffer->write(home);
        cuota::for_each_index(home, count, support::write_word{all.span().data(), value}, "fill");
        note(home, all.span(), true);
    }
    void change() {
        slot& x = slots_[draw(slots_.size())];
        std::size_t const on = draw(streams);
        if (!may_borrow(x, on, true)) return;
        word const value = next();
        auto const all = x.buffer->write(streams_[on]);
        cuota::for_each_index(streams_[on], all.size(), support::add_word{all.span().data(), value},
                              "change");
        note(streams_[on], all.span(), true);
        for (word& w : x.model) w += value;
    }
    void add() {
        slot& x = slots_[draw(slots_.size())];
        slot& y = slots_[draw(slots_.size())];
        std::size_t const on = draw(streams);
        if (!may_borrow(x, on, false) || !may_borrow(y, on, true)) return;
        enqueue_sum(streams_[on], y, x);
    }
    // Like add, with leases that may be open on that stream already.
    void enqueue_sum(cuota::stream_ref s, slot& to, slot const& from) {
        std::size_t const count = std::min(to.model.size(), from.model.size());
        word const factor = next();
        auto const y = to.buffer->write(s);
        auto const x = from.buffer->read(s);
        cuota::for_each_index(s, count, combine{y.span().data(), x.span().data(), factor}, "add");
        note(s, x.span().first(count), false);
        note(s, y.span().first(count), true);
        for (std::size_t i = 0; i != count; ++i) to.model[i] = to.model[i] * factor + from.model[i];
    }
    void begin_lease() {
        std::size_t const of = draw(slots_.size());
        std::size_t const on = draw(streams);
        bool const writes = draw(2) == 0;
        slot& x = slots_[of];
        if (open_.size() == 4 || !may_borrow(x, on, writes)) return;
        if (writes) open_.push_back({x.buffer->write(streams_[on]), of, on});
        else open_.push_back({std::as_const(*x.buffer).read(streams_[on]), of, on});
    }
    void use_lease() {
        if (open_.empty()) return;
        open_lease const& used = *std::next(open_.begin(), static_cast<std::ptrdiff_t>(draw(open_.size())));
        slot& x = slots_[used.of];
        cuota::stream const& s = streams_[used.on];
        if (used.writes()) {
            word const value = next();
            auto const all = std::get<0>(used.lease).span();
            cuota::for_each_index(s, all.size(), support::add_word{all.data(), value}, "change");
            note(s, all, true);
            for (word& w : x.model) w += value;
        } else {
            for (slot& y : slots_)
                if (&y != &x && may_borrow(y, used.on, true)) return enqueue_sum(s, y, x);
        }
    }
    void end_lease() {
        open_.erase(std::next(open_.begin(), static_cast<std::ptrdiff_t>(draw(open_.size()))));
    }
    void release() {
        slot& x = slots_[draw(slots_.size())];
        if (!is_leased(x)) x.buffer.reset();
    }
    void move() {
        std::size_t const from = draw(slots_.size());
        std::size_t const to = draw(slots_.size());
        if (from == to || !slots_[from].buffer || is_leased(slots_[to])) return;
        slots_[to].buffer = std::move(slots_[from].buffer);
        slots_[to].model = std::exchange(slots_[from].model, {});
        slots_[from].buffer.reset();
        for (open_lease& l : open_)
            if (l.of == from) l.of = to;
    }
    void clone() {
        std::size_t const from = draw(slots_.size());
        std::size_t const to = draw(slots_.size());
        std::size_t const on = draw(streams);
        if (from == to || !may_borrow(slots_[from], on, false) || is_leased(slots_[to])) return;
        auto const source = std::as_const(*slots_[from].buffer).read(streams_[on]);
        slots_[to].buffer = slots_[from].buffer->clone(streams_[on]);
        slots_[to].model = slots_[from].model;
        note(streams_[on], source.span(), false);
        auto const copy = std::as_const(*slots_[to].buffer).read();
        note(streams_[on], copy.span(), true);
    }
    void resize() {
        slot& x = slots_[draw(slots_.size())];
        if (!x.buffer || is_leased(x)) return;
        std::size_t const count = 16 + 16 * draw(8);
        if (count == x.model.size()) return;
        x.buffer->resize(count);
        x.model.resize(count);
        auto const all = std::as_const(*x.buffer).read();
        note(x.buffer->home(), all.span(), true);
    }
    void look() {
        slot& x = slots_[draw(slots_.size())];
        std::size_t const on = draw(streams);
        if (!may_borrow(x, on, false)) return;
        auto const all = std::as_const(*x.buffer).read(streams_[on]);
        note(streams_[on], all.span(), false);
        wrong_ += x.buffer->to_vector(streams_[on]) != x.model;
    }
    void replace_stream() {
        std::size_t const i = draw(streams);
        for (open_lease const& l : open_)
            if (l.on == i) return;
        streams_[i] = cuota::stream{};
    }

    // --- which operations are allowed ---

    [[nodiscard]] bool is_leased(slot const& x) const {
        for (open_lease const& l : open_)
            if (&slots_[l.of] == &x) return true;
        return false;
    }
    [[nodiscard]] bool may_borrow(slot const& x, std::size_t on, bool writes) const {
        if (!x.buffer) return false;
        for (open_lease const& l : open_)
            if (&slots_[l.of] == &x && l.on != on && (writes || l.writes())) return false;
        return true;
    }

    template <class Span>
    void note(cuota::stream_ref s, Span const& bytes, bool writes) {
        trace_.touches(s.get(), bytes.data(), bytes.bytes(), writes);
    }
    [[nodiscard]] std::size_t draw(std::size_t below) { return draw_() % below; }
    [[nodiscard]] word next() { return static_cast<word>(draw_() % 1000) + 1; }

    cuota::scoped_pool& pool_;
    support::order_trace& trace_;
    std::mt19937_64 draw_;
    std::array<cuota::stream, streams> streams_;
    std::array<slot, 5> slots_;
    std::list<open_lease> open_;  // refers to streams_ and slots_
    int wrong_ = 0;
};

// Runs programs in sequence on one machine and one pool.
class session {
public:
    struct outcome {
        bool is_right;
        std::uint64_t races;
        std::uint64_t waits;
        bool has_race_by_trace;
    };
    // `wait`: number of the omitted wait, from 1.
    outcome run(std::uint64_t seed, std::optional<std::uint64_t> wait = {}) {
        std::uint64_t const races_before = simulator::misuse().races;
        support::order_trace trace;
        if (wait) trace.leave_out_wait(*wait);
        program one{pool_, trace, seed};
        one.run(40);
        outcome seen{};
        seen.has_race_by_trace = trace.has_race();
        seen.waits = trace.waits();
        cudaDeviceSynchronize();
        seen.is_right = one.has_right_results();
        seen.races = simulator::misuse().races - races_before;
        return seen;
    }
    [[nodiscard]] std::vector<std::string> errors() { return machine_.errors.take(); }

private:
    struct reporting_machine : support::machine {  // reports races whatever the environment sets
        reporting_machine() { simulator::set_race_checks(simulator::race_checks::report); }
    };
    reporting_machine machine_;
    cuota::scoped_pool pool_{cuota::budget{"programs", 64_MiB}, {.initial_size = 1_MiB}};
};

std::uint64_t programs() {
    char const* const wanted = std::getenv("CUOTA_PROGRAMS");
    return wanted ? std::strtoull(wanted, nullptr, 10) : support::rounds<std::uint64_t>(1000);
}

}  // namespace

TEST_CASE("random programs have no race and correct results", "[buffer][programs]") {
    std::uint64_t waits = 0;
    session all;
    for (std::uint64_t seed = 1; seed <= programs(); ++seed) {
        INFO("program " << seed);
        auto const seen = all.run(seed);
        waits += seen.waits;
        REQUIRE(seen.is_right);
        REQUIRE(seen.races == 0);
        REQUIRE_FALSE(seen.has_race_by_trace);
    }
    CHECK(simulator::misuse().total() == 0);
    CHECK(all.errors().empty());
    CHECK(waits > 0);
}

TEST_CASE("a wait that is omitted from a random program is detected where it affects the order",
          "[buffer][programs]") {
    if (support::under_thread_sanitizer) {
        WARN("CUOTA_SKIPPED: what is left out makes a race of threads of the simulator");
        return;
    }
    std::uint64_t left_out = 0, mattered = 0, caught = 0;
    session all;
    std::mt19937_64 draw{1};
    std::uint64_t const count = programs();
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
        auto const whole = all.run(seed);
        if (whole.waits == 0) continue;
        auto const seen = all.run(seed, 1 + draw() % whole.waits);
        ++left_out;
        if (!seen.has_race_by_trace) continue;
        ++mattered;
        caught += seen.races != 0 || !seen.is_right;
    }
    std::string const seen = std::to_string(left_out) + " waits left out, " + std::to_string(mattered) +
                             " mattered, " + std::to_string(caught) + " were caught";
    INFO(seen);
    if (std::getenv("CUOTA_PROGRAMS")) WARN(seen);
    CHECK(left_out > count / 2);
    CHECK(mattered > left_out / 4);
    CHECK(caught * 100 >= mattered * 99);
    (void)all.errors();
}
